"""French, Spanish, Portuguese and Italian."""

from sm.capabilities.completion.rules.words.vocabulary import Words

FRENCH = Words(
    done=r"""
        ^(?:c'est |tout est |voilà,? |ok,? |et )*(?:terminée?s?|fait|finie?s?|fini|prêt|bouclée?|achevée?|
            réglé)(?= *[^\w ]| *$);
        (?:est|sont|a été|
            ont été) (?:maintenant |désormais |bien |tous |toutes |entièrement )*(?:terminée?s?|finie?s?|
            achevée?s?|prête?s?|complète?s?); (?:tâche|travail) terminée?;
        j'ai (?:tout )?(?:terminé|fini)(?! le premier| la première| l'étape)
    """,
    work=r"""
        ^(?:[\w'-]+ ){0,3}(?:ajouté|corrigé|supprimé|renommé|déplacé|créé|modifié|traduit|migré|remplacé|activé|configuré|installé|réparé|résolu|fusionné|publié)e?s?(?= *[^\w ]| *$| \w); (?:j'ai|nous avons|on a) (?:bien |aussi |également |tout |donc )*\w+(?:é|és|ée|ées|i|is|it|u|us|ert|
            ait);
        (?:est|sont|a été|ont été) (?:maintenant |désormais |bien |tous |toutes )*(?!refus|bloqu|protég|annul|interr|arrêt|perd|cass|verrouill|rejet|limit|expir|plant)\w{3,}(?:ée?s?|ie?s?|
            ite?s?|erte?s?|ue?s?); tests? (?:\w+ ){0,4}(?:passent|passe|au vert|verts?|réussis?|réussissent);
        tout (?:passe|fonctionne|marche); au vert; est vert; (?:est|sont) en place; (?:est|sont) en ligne;
        au lieu de \w+; (?:fonctionne|marche|fonctionnent) (?:maintenant|désormais|à nouveau|pour|correctement)
    """,
    unless=r"""
        ne; n'; pas; jamais; presque; partiellement; quand; lorsque; dès que; si; avant; devrait; devraient;
        doit; pourrait; sera; seront; sans; à moitié; encore; en partie; n'est; n'a; n'ai; n'ont
    """,
    unfinished=r"""
        je m'en occupe; (?:suivent|suivra|suivront)(?= *[.,;]| *$);
        je (?:passe|vais|continue|poursuis|m'attaque|m'occupe|me charge|commence)(?: \w+)*;
        je (?:m'|me )?\w+(?:erai|irai|rai); je (?:m'|me )?\w+ (?:ensuite|maintenant|après|demain|plus tard);
        il (?:me )?reste; restent?(?: encore)? (?:à|encore|les?|la|deux|trois); reste à; prochaine étape;
        ensuite,? je; à faire; en cours; jusqu'ici; jusqu'à présent;
        (?:pas encore|presque) (?:terminé|fini|prêt|fait)\w*; n'est pas (?:encore )?(?:terminé|fini|prêt)\w*;
        à suivre; demain; la moitié; suivr(?:a|ont); manquent? encore
    """,
    partial=r"""
        étape \d+ (?:sur|de|/) ?\d+; \d+ (?:sur|des) (?:les )?\d+;
        (?:premi(?:er|ère)|deuxième) (?:partie|étape|moitié|chapitre|phase)
    """,
    waiting=r"""
        j'attends(?! votre| ta| ton| vos| tes); en attente (?:de|des|du)(?! votre); en arrière-plan;
        (?:tourne|tournent|travaillent) (?:encore|toujours)
    """,
    failed=r"""
        (?:a|ont) mal tourné;
        (?:pas|n'y suis pas) (?:arrivée?|parvenue?)(?= *[^\w ]| *$| à); (?:a|ont) planté; en vain(?= *[^\w ]| *$); rien (?:donné|changé)(?= *[^\w ]| *$);
        (?:je )?n'(?:ai|avons) (?:malheureusement )?pas (?:pu|réussi|trouvé)(?! (?:le |la |l')?(?:tester|
            vérifier|exécuter)); pas réussi; impossible de (?:corriger|compiler|réparer|trouver|reproduire);
        a échoué(?! avant); sans succès; j'abandonne;
        je ne (?:peux|parviens|sais) pas (?:résoudre|corriger|réparer|à); malheureusement
    """,
    failing=r"(?:échoue|échouent)(?: encore| toujours)?; ont échoué; ne (?:passent|passe|compile|marche|fonctionne|démarre)(?:nt)? (?:toujours |plus )?pas; [1-9]\d* échecs?; toujours (?:rouge|cassé\w*|en échec)",
    blocked=r"""
        bloquée?(?= *[^\w ]| *$| par);
        (?:je )?ne (?:peux|puis) pas (?:continuer|poursuivre|aller plus loin|avancer); impossible de continuer;
        (?:manque|manquent) (?:\w+ ){0,2}(?:droits?|accès|identifiants|permissions?|autorisation|
            mot de passe|jeton);
        (?:pas|aucun|sans) (?:d'|l'|les? )?(?:accès|droits?|permission|
            autorisation)(?= *[^\w ]| *$| au?x?| de| pour)
    """,
    ask=r"""
        (?:dites|dis|indiquez|précisez|faites|fais)-?(?:moi)? (?:savoir )?(?:ce que|quel\w*|lequel|laquelle|
            si je (?:dois|peux)|comment|où|qui)(?! vous souhaitez aussi);
        (?:merci de|veuillez|pouvez-vous|peux-tu) (?:me )?(?:confirmer|choisir|préciser|valider|indiquer);
        j'ai besoin (?:de votre|de ta|d'une) (?:décision|réponse|confirmation|validation|accord);
        j'attends (?:votre|ta|ton|vos);
        (?:dois-je|voulez-vous|veux-tu|préférez-vous|souhaitez-vous|puis-je)(?=.{0,200}\?)
    """,
    offer=r"""
        (?:n'hésite|dites|dis|fais|faites)\w*(?:-moi|
            -le-moi)?(?: pas)?(?: à)?(?: me)?(?: dire| savoir)? si (?:vous|tu)(?! dois);
        si (?:vous|tu) (?:le )?(?:souhaite|veu|voule|préfère)\w*; je peux aussi; n'hésitez pas; au besoin
    """,
    inquiry=r"""
        expliqu\w*; pourquoi; comment; quel\w*; que; qu'est-ce; où; qui; quand; combien; analys\w*; compar\w*;
        décri\w*; résum\w*; planifi\w*; vérifi\w*; cherch\w*; trouv\w*; examin\w*; évalu\w*; list\w*; est-ce;
        y a-t-il; rédige un plan; propose
    """,
)

SPANISH = Words(
    done=r"""
        ^(?:todo |ya está |ya |está |ok,? )*(?:list[oa]s?|hech[oa]|terminad[oa]|completad[oa]|acabado|
            finalizad[oa])(?= *[^\w ]| *$);
        (?:está|están|ha sido|queda|quedó|quedan) (?:ahora |ya |todo |completamente )*(?:list[oa]s?|
            terminad[oa]s?|complet[oa]s?|completad[oa]s?|hech[oa]s?|finalizad[oa]s?);
        tarea (?:completada|terminada|finalizada)
    """,
    work=r"""
        (?:he|hemos|ha|han sido|ha sido|han) (?:ya |también |sido )*\w{2,}(?:ad|id)[oa]s?;
        he (?:escrito|hecho|resuelto|puesto|añadido|abierto); ^(?:ya )?\w{3,}(?:é|í)(?= );
        y (?:la |lo |los |las )?(?:he )?\w{3,}é(?= );
        (?:está|están|queda|quedan|fue|fueron) (?:ahora |ya |todo )*(?:\w{3,}[ai]d[oa]s?|resuelt[oa]s?|
            escrit[oa]s?|cubiert[oa]s?);
        (?:pruebas|tests|todo|todas|todos) (?:[^.;]{0,30} )?(?:pasan|pasaron|en verde|funciona|pasa);
        (?:ahora|ya) (?:funciona|devuelve|usa|se|todas|todos|pasan|está|están);
        ^(?:\w+ ){1,4}\w{3,}[ai]d[oa]s?(?= *(?:[.,;:!]|y |en |$)); (?:devuelve|funciona|usa|muestra) ahora;
        todo (?:está )?en
    """,
    unless=r"""
        no; nunca; casi; parcialmente; cuando; si; antes; hasta; debería; deberían; debe; podría; será; sin;
        todavía; aún; falta; faltan; medio; una vez
    """,
    unfinished=r"""
        sigo con;
        a continuación; (?:todavía|aún|solo) (?:falta|faltan|queda|quedan);
        (?:falta|faltan|quedan?) (?:por|la|el|los|las|\d+)(?! (?:un|una) cabecera);
        (?:ahora|luego|después) (?:voy|seguiré|continuaré|migraré|haré|paso|sigo);
        (?:voy|sigo|continúo|procedo) (?:a|con|en); siguiente paso; hasta ahora; (?:me|nos) (?:quedan?|faltan?);
        (?!(?:rep|prep|comp|sep|decl|acl|disp|amp|am|ret|t|m|g|asp|v|adm|resp|sup|comp|arr)(?:ar|
            ir)é)\w{2,}(?:aré|eré|iré)(?!\w); en curso; en progreso; casi (?:listo|terminado|hecho);
        pendientes?(?= *[^\w ]| *$| de); seguiré; continuaré; mañana; la mitad; (?:ahora |luego )?sigo(?: con)?;
        seguirá[n]?; van \d+ de \d+; (?:aún|todavía) no
    """,
    partial=r"paso \d+ de \d+; \d+ de (?:las |los )?\d+; primer[ao]? (?:parte|mitad|paso|fase|capítulo)",
    waiting=r"""
        (?:espero|esperando|esperaré)(?: a)?(?: \w+)?(?! tu| su| vuestra); en segundo plano;
        sigue(?:n)? (?:en ejecución|corriendo|trabajando)
    """,
    failed=r"""
        salió mal; salieron mal;
        no lo (?:he )?(?:conseguido|conseguí|logrado|logré); no (?:he|hemos) (?:podido|logrado|conseguido)(?! (?:probar|ejecutar|verificar)\w*); sin éxito; no hubo (?:forma|manera); (?:se cayó|se colgó|murió)(?= *[^\w ]| *$| a | al );
        no (?:he podido|pude|hemos podido|logré|conseguí|he logrado|he conseguido|fue posible|he encontrado|
            encontré)(?! (?:probar|verificar|ejecutar|comprobar)\w*); falló; fracas\w+; sin éxito; me rindo;
        no consigo; imposible (?:arreglar|compilar|reparar)
    """,
    failing=r"""
        (?:sigue|siguen) sin \w+; ningun[oa] (?:funciona|sirve|ayuda)\w*;
        (?:sigue|siguen|continúan?) (?:fallando|rot[oa]s?|en rojo); (?:falla|fallan|fallaron);
        [1-9]\d* (?:pruebas |tests )?fallid[oa]s
    """,
    blocked=r"""
        bloquead[oa](?= *[^\w ]| *$| por); no puedo (?:continuar|seguir|avanzar|proseguir);
        (?:necesito|faltan?|sin|no tengo|requiere) (?:\w+ ){0,2}(?:credenciales|acceso|permisos?|contraseña|
            clave|token|autorización)
    """,
    hedge=r"""
        no (?:lo |la |los |las )?he podido (?:probar|abrir|ejecutar|comprobar|verificar)\w*;
        debería(?:n)? (?:\w+ ){0,3}(?:funcionar|estar|ir|bastar|pasar|quedar|arreglar|ser|resolver);
        (?:probablemente|seguramente|quizás?|tal vez|en teoría|supuestamente|espero que|creo que|parece);
        (?:sin|no) (?:lo |la |he |ha sido |pude |podido |haber |haberlo )*(?:probar|probad[oa]|verificar|
            verificad[oa]|comprobar)
    """,
    ask=r"""
        (?:dime|díme|dígame|decidme|indica|confírmame|avísame) (?:por favor )?(?:cuál|qué|si (?:debo|puedo|
            quieres que|continúo|procedo)|cómo|dónde);
        (?:por favor,? )?(?:confirma|elige|decide|indica|confirme|elija)(?:me)?(?= |\W);
        necesito (?:tu|su|una|saber|que me)(?: \w+)?(?: decisión| respuesta| confirmación| confirmes| digas|
            lo)?(?! credenciales); necesito saberlo; espero tu (?:respuesta|decisión|confirmación);
        ¿(?:cuál|qué|quieres|quiere|debo|puedo|prefieres|deseas|te|le)\b
    """,
    offer=r"""
        si (?:lo )?(?:quieres|quiere|deseas|necesitas|prefieres)(?= *,| que| algo|$); avísame si;
        dime si (?:quieres|necesitas) (?:que|algo|otra|también); también puedo; puedo (?:añadir )?también
    """,
    inquiry=r"""
        explic\w*; por qué; cómo; qué; cuál\w*; dónde; quién; cuánt\w*; analiz\w*; compar\w*; describ\w*;
        resum\w*; planific\w*; revis\w*; busca; investig\w*; evalú\w*; lista; enumera; averigua; encuentra; ¿.*;
        comprueba; propón
    """,
)

PORTUGUESE = Words(
    done=r"""
        ^(?:tudo |está |já está |ok,? )*(?:pront[oa]|feito|concluíd[oa]|terminad[oa]|finalizad[oa]|
            completo)(?= *[^\w ]| *$);
        (?:está|estão|foi|foram) (?:agora |já |tudo |totalmente )*(?:pront[oa]s?|concluíd[oa]s?|
            finalizad[oa]s?|complet[oa]s?|terminad[oa]s?); tarefa (?:concluída|finalizada|completa)
    """,
    work=r"""
        (?:^|e |, |também )(?:já )?(?:eu )?(?:\w{3,}(?:ei|i))(?= (?:o|a|os|as|um|uma|\d+|todos|todas|dois|
            duas|também)(?!\w)); ^(?:corrigi|adicionei|removi|criei|atualizei|implementei|resolvi|escrevi)(?= );
        ^(?:\w+ ){1,4}\w{3,}[ai]d[oa]s?(?= *(?:[.,;:!]|$)); (?:foi|foram|está|estão) (?:\w+ )?\w{3,}(?:ad|id)[oa]s?;
        (?:testes|tudo|todos) (?:[^.;]{0,30} )?(?:passam|passando|passaram|passa|funcionando);
        tudo (?:passando|certo|funcionando|ok); (?:agora )?funciona (?:agora|corretamente|normalmente);
        continua funcionando; ^[\w.]+ \w{3,}(?:ad|íd|id)[oa]s? (?:com|para|em|na|no|e|de)(?= )
    """,
    unless=r"""
        não; nunca; quase; parcialmente; quando; se; antes; até; deve; deveria; pode; será; sem; ainda; falta;
        faltam; depois
    """,
    unfinished=r"""
        ainda (?:falta|faltam|não|restam?|preciso|vou); (?:falta|faltam|restam?) (?:o|a|os|as|ainda|\d+|só);
        (?:agora|depois|em seguida|a seguir) (?:vou|farei|passo|começo|continuo);
        vou (?:continuar|agora|escrever|começar|fazer|passar); próxim[oa] (?:passo|etapa); até agora;
        (?!(?:rep|prep|comp|sep|decl|ret|t|v|m|adm|resp|conf|f|ins)(?:ar|er|ir)ei)\w{2,}(?:arei|erei|
            irei)(?!\w); em andamento; quase (?:pronto|terminado|lá); continuo com; amanhã; metade; a seguir
    """,
    partial=r"""
        (?:etapa|passo|parte|fase) \d+ de \d+; \d+ d[eoa]s? \d+; primeir[oa] (?:parte|metade|etapa|fase)
    """,
    waiting=r"""
        (?:aguardo|aguardando|esperando|vou esperar|vou aguardar)(?! sua| a sua| seu); em segundo plano;
        ainda (?:está|estão) (?:rodando|em execução|trabalhando)
    """,
    failed=r"""
        não consegui(?:mos)?(?! (?:testar|rodar|verificar)); sem sucesso; não deu certo;
        não (?:consegui|conseguimos|foi possível|pude|encontrei)(?! (?:testar|verificar|executar)); falhou;
        sem sucesso; desisto; impossível (?:corrigir|compilar)
    """,
    failing=r"""
        (?:continua|continuam|ainda está|ainda estão) (?:falhando|quebrad\w+); (?:falha|falham|falharam)(?! de)
    """,
    blocked=r"""
        bloquead[oa](?= *[^\w ]| *$| por); não (?:posso|consigo) (?:continuar|prosseguir|seguir|avançar);
        (?:preciso de|faltam?|sem|não tenho) (?:\w+ ){0,2}(?:permissão|permissões|acesso|credenciais|senha|
            autorização|chave)
    """,
    ask=r"""
        (?:me )?(?:diga|avise|informe|confirme|indique)(?:-me|me)?(?: por favor)? (?:qual|o que|se (?:devo|
            posso|é)|como|onde); (?:por favor,? )?(?:confirme|escolha|decida)(?= |\W);
        preciso (?:da sua|de uma|saber|que você)(?: \w+)?; aguardo (?:sua|a sua|seu);
        (?:posso|devo|você quer|deseja|quer que eu|prefere)(?=.{0,200}\?)
    """,
    offer="se (?:você )?(?:quiser|desejar|precisar|preferir); me avise se; também posso; avise se",
    inquiry=r"""
        expli\w*; por que; como; o que; qual\w*; onde; quem; quant\w*; analis\w*; compar\w*; descrev\w*;
        resum\w*; planej\w*; revis\w*; procur\w*; investig\w*; avali\w*; list\w*; descubra; encontre; verifi\w*
    """,
)

ITALIAN = Words(
    done=r"""
        ^(?:tutto |è |ok,? |già )*(?:fatto|finito|pronto|completato|terminato|concluso)(?= *[^\w ]| *$);
        (?:è|sono|ho) (?:ora |già |tutto |completamente )*(?:finit[oaie]|pront[oaie]|completat[oaie]|
            terminat[oaie]|complet[oaie])(?= *[^\w ]| *$| e| con);
        (?:attività|compito) (?:completat[oa]|terminat[oa])
    """,
    work=r"""
        ho (?:anche |già |inoltre )*\w{2,}(?:ato|uto|ito|tto|sto|so)(?! la prima| il primo);
        (?:è|sono) (?:stat[oaie] |ora |tutt[ei] |già )*\w{3,}(?:at|ut|it|tt|st|ol)[oaie];
        (?:test|tutti|tutto|build) (?:[^.;]{0,30} )?(?:passano|passa|verdi?|superati|superano|funziona|
            riescono); (?:ora )?funziona(?:no)? (?:ora|di nuovo|correttamente);
        (?:è|sono) (?:a posto|in linea|online|attiv[oaie]); invece di \d
    """,
    unless=r"""
        non; mai; quasi; parzialmente; quando; se; prima; finché; dovrebbe; dovrebbero; deve; potrebbe; sarà;
        senza; ancora; manca; mancano; appena; dopo
    """,
    unfinished=r"""
        sto (?:passando|lavorando|continuando|traducendo|scrivendo|migrando);
        (?:ora|poi|adesso|in seguito) (?:passo|procedo|continuo|mi occupo|inizio|vado|farò);
        (?:manca|mancano|resta|restano|rimane|
            rimangono) (?:ancora |solo |da |la |il |i |le |gli |\d+)(?! rotto); prossimo passo; finora;
        in corso; quasi (?:finito|fatto|pronto); proseguo; continuo con; domani; (?:la )?metà; da fare;
        \w{2,}(?:erò|irò|arò|rrò)(?!\w); mi (?:restano|resta|mancano|manca); seguirà; seguiranno;
        non (?:ancora|è ancora|ho ancora)(?: \w+)?
    """,
    partial=r"""
        (?:passo|fase|parte|passaggio) \d+ (?:di|su) \d+; \d+ (?:di|su|dei|delle) (?:\w+ )?\d+;
        prim[ao] (?:parte|metà|passo|fase)
    """,
    waiting=r"""
        (?:aspetto|attendo|in attesa)(?! (?:una |la )?(?:tua|sua|risposta)); in background; ancora in esecuzione
    """,
    failed=r"""
        non ci sono riuscit[oa]; non ce l'ho fatta; invano;
        non (?:sono riuscit[oa]|ho potuto|riesco|è stato possibile|ho trovato)(?! a (?:testare|verificare|
            provare)); fallit[oaie]; senza successo; mi arrendo; impossibile (?:compilare|correggere|riparare)
    """,
    failing="(?:fallisce|falliscono)(?: ancora)?; ancora (?:rotto|rossi?)",
    blocked=r"""
        bloccat[oa](?= *[^\w ]| *$| da); non posso (?:continuare|procedere|proseguire|andare avanti);
        (?:mi servono|servono|mancano|manca|senza|non ho) (?:\w+ ){0,3}(?:credenziali|accesso|permess[oi]|
            password|autorizzazion[ei]|diritti)
    """,
    ask=r"""
        (?:dimmi|mi dica|fammi sapere|fatemi sapere|indicami|indica)(?: per favore)? (?:quale|cosa|
            se (?:devo|posso|va bene)|come|dove|e (?:procedo|continuo));
        (?:conferma|scegli|decidi)(?:mi)?(?= |\W|$); ho bisogno (?:della tua|di una|di sapere)(?: \w+)?;
        attendo (?:una |la )?(?:tua|sua|risposta); (?:vuoi|devo|posso|preferisci|desidera|quale)(?=.{0,200}\?)
    """,
    offer=r"""
        se (?:vuoi|vuole|desideri|serve|preferisci)(?= *,| che| posso|$);
        fammi sapere se (?:vuoi|serve|hai|desideri); posso anche; se ti serve
    """,
    inquiry=r"""
        spieg\w*; perché; come; cosa; quale; quali; dove; chi; quant\w*; analizz\w*; confront\w*; descriv\w*;
        riassum\w*; pianific\w*; controll\w*; verific\w*; cerca; indag\w*; valut\w*; elenc\w*; trova; scopri
    """,
)
