"""German, Dutch, and the Scandinavian languages."""

from sm.capabilities.completion.rules.words.vocabulary import Words

GERMAN = Words(
    done=r"""
        ^(?:alles |ok,? |so,? |und )?(?:fertig|erledigt|abgeschlossen|geschafft|vollbracht);
        (?:ist|sind|bin|damit|jetzt|nun|
            alles) (?:nun |jetzt |alles |damit |vollständig |komplett )*(?:fertig|erledigt|abgeschlossen|
            vollständig);
        (?:aufgabe|arbeit|umsetzung|implementierung) (?:ist )?(?:abgeschlossen|erledigt|fertig); das war's;
        das wär's; fertiggestellt
    """,
    work=r"""
        (?:ich habe|habe ich|habe|hab|wir haben|wurden?|ist|sind) (?:[^.;]{0,80} )?(?!gefunden|gesehen|gelesen|gedacht|geschaut|gesucht|gehört|bekannt|verstanden|erkannt|untersucht|versucht|ausprobiert|probiert|angesehen|eingearbeitet|begonnen|gestartet)(?:ge\w{2,}t|ge\w{2,}en|\w{2,}ge\w{2,}(?:t|en)|
            be\w{3,}(?:t|en)|ver(?!sucht|standen)\w{3,}(?:t|en)|er(?!kannt)\w{3,}(?:t|en)|ent\w{3,}(?:t|en)|über\w{3,}(?:t|en)|
            (?!(?:aus)?probiert|analysiert)\w+iert|ersetzt|aktualisiert|behoben);
        (?:tests?|build|alle|alles) (?:[^.;]{0,40} )?(?:grün|durch|bestanden|erfolgreich|fehlerfrei|
            ohne fehler);
        (?:laufen|läuft|funktionieren|funktioniert|heißt|gibt es|verwendet|liegt|steht) (?:jetzt|nun|wieder);
        jetzt (?:grün|behoben); ^(?:[\w-]+ ){1,4}(?:entfernt|ergänzt|behoben|hinzugefügt|angepasst|aktualisiert|umbenannt|gelöscht|erstellt|umgestellt|korrigiert|ersetzt|eingebaut|verschoben|bereinigt)(?= *[^\w ]| *$| und); (?:ist|sind) (?:raus|weg|drin|da|umgesetzt|live|in betrieb|online); liegt in;
        statt (?:bisher |vorher |nach )?\d
    """,
    unless=r"""
        nicht; nie; kein; keine; fast; beinahe; teilweise; sobald; wenn; falls; bevor; bis; noch; sollte;
        müsste; könnte; wird; werden; würde; kaum; halb; ohne dass
    """,
    unfinished=r"""
        (?:folgt|folgen)(?= *[.,;]| *$);
        als nächstes; als nächster schritt; (?:ich )?mache (?:jetzt |nun )?(?:mit|weiter);
        (?:fehlt|fehlen) (?:jetzt|nur|noch); (?:steht|stehen|bleibt|bleiben) noch;
        noch (?:nicht|offen|ausstehend|zu tun);
        (?:nun|jetzt|danach|dann) (?:werde ich|folgt|folgen|kommt|kommen|mache ich|kümmere ich); ich werde;
        weiter geht's; (?:fast|beinahe|teilweise|nicht) fertig; bisher; (?:folgt|folgen)(?: noch| später| morgen)?(?= *[^\w ]| *$);
        in arbeit; morgen; die hälfte; zur hälfte; muss noch; müssen noch
    """,
    partial=r"""
        schritt \d+ (?:von|/) ?\d+; \d+ von (?:den )?\d+ \w+;
        (?:erste|zweite)[rnms]? (?:teil|hälfte|schritt|phase)
    """,
    waiting=r"""
        (?:ich )?warte (?:auf|bis|nun|jetzt)(?! deine| ihre);
        läuft (?:noch |jetzt |gerade )*(?:im hintergrund|noch);
        (?:habe|wurden) .{0,60}(?:gestartet|delegiert|beauftragt)(?=,? (?:und )?warte); im hintergrund;
        (?:arbeiten|laufen) noch
    """,
    failed=r"""
        (?:ging|gingen|lief|liefen) (?:leider )?schief; schiefgegangen; (?:nach wie vor|immer noch|weiterhin) (?:falsch|kaputt|defekt|fehlerhaft);
        nicht (?:hinbekommen|geschafft|hingekriegt|lösen können|gelöst bekommen); (?:leider )?(?:erfolglos|vergeblich)(?= *[^\w ]| *$); (?:ist|sind) (?:\w+ ){0,4}(?:abgestürzt|gescheitert)(?! und);
        (?:konnte|konnten) [^.;,:]{0,80}nicht (?!testen|prüfen|verifizieren|ausprobieren|nachstellen)\w+en(?= *[^\w ]| *$);
        (?:konnte|kann|konnten|
            können) (?:ich |wir |leider |es |das |den |die |der |\w+ ){0,8}nicht (?:\w+ )?(?:beheben|lösen|
            finden|bauen|reparieren|abschließen|reproduzieren|kompilieren|erreichen|herstellen|umsetzen|finden);
        (?:ist|sind) (?:mir |leider )*(?:gescheitert|fehlgeschlagen|nicht gelungen); nicht gefunden;
        ich gebe auf; ohne erfolg; leider nicht; ^leider; nicht zum (?:laufen|funktionieren|fliegen);
        alle versuche (?:enden|scheitern|schlugen|endeten); gelingt (?:mir )?nicht; nicht geschafft
    """,
    failing=r"""
        (?:schlägt|schlagen) (?:[^.;]{0,40} )?fehl; fehlgeschlagen; immer noch rot; noch rot;
        (?:immer noch|weiterhin|nach wie vor) (?:\w+ )?(?:fehler|nicht|segmentation|rot|kaputt|abstürz\w*|
            abst\w+); trotz (?:\w+ )?versuche;
        (?:startet|läuft|baut|kompiliert|funktioniert|geht) (?:[^.;,]{0,40} )?nicht;
        (?:bricht|brechen) (?:\w+ )?ab; [1-9]\d* (?:tests? )?(?:fehler|fehlgeschlagen)
    """,
    blocked=r"""
        (?:kann|komme|können) (?:ich )?(?:hier |jetzt |so |leider )*nicht (?:fortfahren|weitermachen|
            weiterarbeiten|weiter); blockiert(?= *[^\w ]| *$);
        (?:vpn|zugang|zugriff|passwort|token|rechte|schlüssel)(?:,? (?:das|den|die|der) ich)? nicht (?:habe|
            haben|besitze); komme ich nicht an;
        (?:fehlt|fehlen) (?:mir |uns )?(?:\w+ ){0,3}[\w-]*(?:zugangsdaten|berechtigung\w*|zugriff\w*|rechte|token|
            passwort);
        (?:keine?n?|ohne) (?:\w+ )?(?:zugriff|berechtigung|rechte|zugang|
            zugangsdaten)(?= *[^\w ]| *$| auf| für| zu)
    """,
    ask=r"""
        (?:bitte )?(?:sag|sagen sie|gib|teile|teilen sie|lass)e? (?:mir|mich|
            uns) (?:bitte |bescheid, |kurz |wissen, )*(?:welche\w*|wie|ob|was|wo|wann|wer);
        bitte (?:bestätig|entscheid|wähl|antwort|gib|geben sie|kläre?|sag mir)\w*;
        (?:brauche|benötige) (?:ich )?(?:\w+ ){0,4}(?:entscheidung|antwort|freigabe|bestätigung|rückmeldung|
            angabe)\w*; warte (?:ich )?auf (?:deine|ihre|eure);
        sobald (?:du|sie) (?:zustimm|bestätig|entscheid|antwort|freig)\w*;
        ^(?:soll|sollen|darf|welche|möchtest du|möchten sie|willst du) (?:ich|wir|\w+)(?=.{0,200}\?)
    """,
    offer=r"""
        (?:sag|sagen sie|gib|geben sie|melde? dich|meld)\w* (?:mir |einfach |gern |gerne )*(?:bescheid|wenn|
            falls); wenn du (?:möchtest|willst|magst); falls (?:du|sie|ich|gewünscht); auf wunsch;
        gerne? (?:kann|mache|auch); kann ich (?:auch|noch|gern)
    """,
    inquiry=r"""
        erklär\w*; warum; wieso; weshalb; wie; was; wo; welche\w*; wer; wann; plan\w*; analysier\w*;
        vergleich\w*; beschreib\w*; prüf\w*; such\w*; finde? heraus; untersuch\w*; fass\w*; bewert\w*; liste\w*;
        recherchier\w*; entwirf; (?:schreib|erstell|mach)\w* (?:\w+ ){0,2}(?:konzept|plan|bericht|zusammenfassung|übersicht|liste|vergleich); ist; sind; gibt es; überprüf\w*
    """,
)

DUTCH = Words(
    done=r"""
        ^(?:helemaal |alles |ok,? )?(?:klaar|gedaan|afgerond|voltooid|gereed)(?= *[^\w ]| *$);
        (?:is|zijn|ben) (?:nu |allemaal |volledig |alles )*(?:klaar|gereed|afgerond|voltooid|
            af)(?= *[^\w ]| *$| en); taak (?:is )?(?:voltooid|afgerond)
    """,
    work=r"""
        (?:is|zijn|heb|hebben|werd|werden) (?:[^.;]{0,60} )?(?:ge\w{3,}|\w{2,}ge\w{3,}|be\w{3,}d|ver\w{3,}d|
            her\w{3,}d|ont\w{3,}d|opgelost|toegevoegd|aangepast|samengevoegd);
        (?:tests?|alle\w*|alles) (?:[^.;]{0,30} )?(?:slagen|slaagt|groen|geslaagd)(?! niet);
        (?:werkt|werken|draaien|draait|staat|staan) (?:nu|weer|op); in plaats van
    """,
    unless=r"""
        niet; geen; bijna; gedeeltelijk; nog; zodra; als; wanneer; voordat; tot; zou; moet; moeten; kan; zal;
        deels; half; nooit
    """,
    unfinished=r"""
        moet(?:en)? nog; nog (?:niet|te doen|bezig|over|open);
        (?:nu|daarna|vervolgens|hierna) (?:ga|begin|werk|maak|zal) ik; ga (?:ik )?(?:nu )?(?:verder|door);
        hierna; morgen; de helft; volgt(?= *[^\w ]| *$); volgende stap; tot nu toe; bijna klaar; ik ga;
        ontbre(?:ekt|ken) nog; resteert; resteren; is bezig
    """,
    partial=r"stap \d+ van \d+; \d+ van de \d+; eerste (?:deel|helft|stap|fase)",
    waiting=r"""
        wacht(?:en)? (?:ik )?(?:op|tot|nu)(?! je| uw); op de achtergrond; draai(?:t|en) nog; zijn bezig
    """,
    failed=r"""
        niet gelukt; lukt(?:e)? (?:me |het )*niet;
        kon (?:[^.;,:]{0,60} )?niet (?!testen|controleren)\w+en(?= *[^\w ]| *$); (?:kon|kan) (?:ik )?(?:\w+ ){0,5}niet (?:\w+ )?(?:oplossen|vinden|bouwen|herstellen|repareren|afmaken);
        mislukt; zonder succes; ik geef het op; helaas niet
    """,
    failing="(?:faalt|falen|mislukken|mislukt)(?: nog)?; nog (?:steeds )?rood",
    blocked=r"""
        kan (?:ik )?(?:nu |hier |zo )*niet (?:verder|doorgaan); geblokkeerd(?= *[^\w ]| *$);
        (?:geen|zonder|mis|ontbreekt|ontbreken) (?:\w+ )?(?:toegang|rechten|toestemming|inloggegevens|
            wachtwoord|token)
    """,
    ask=r"""
        (?:laat (?:me|mij|het me) (?:even |maar )?weten|zeg (?:me|maar)|vertel me) (?:welke|wat|hoe|of|wie|
            waar); (?:graag |even )?(?:bevestig|kies|beslis)(?: \w+)*;
        (?:heb|nodig) (?:\w+ ){0,3}(?:beslissing|antwoord|bevestiging|akkoord); wacht op (?:je|uw)
    """,
    offer=r"""
        laat (?:het )?(?:me |mij |maar |gerust )*weten (?:als|wanneer|of je nog); als je (?:wilt|wil);
        indien gewenst; kan (?:ik )?ook
    """,
    inquiry=r"""
        leg uit; waarom; hoe; wat; waar; welke; wie; wanneer; plan; analyseer; vergelijk; beschrijf; controleer;
        zoek uit; onderzoek; vat samen; is er; zijn er; beoordeel
    """,
)

SCANDINAVIAN = Words(
    done=r"""
        ^(?:alt |allt |ok,? )?(?:klart?|färdigt?|færdigt?|ferdig|gjort|fullført|slutfört|valmis|
            tehty)(?= *[^\w ]| *$);
        (?:är|er|on) (?:nu |nå |alt |allt |helt |nyt )*(?:klart?|färdig\w*|færdig\w*|ferdig|gjort|
            valmis)(?= *[^\w ]| *$| och| og| ja)
    """,
    work=r"""
        (?:har|är|er|blev|ble) (?:jag |jeg |nu |nå |också |også |[\w`.]+ ){0,5}(?:lagt till|lagt til|
            tilføjet|fixat|fikset|rettet|åtgärdat|löst|løst|oppdatert|opdateret|uppdaterat?|uppdaterade|
            fjernet|tagit bort|skrivit|skrevet|implementert?|implementerat|på plats|på plass|på plads);
        (?:tester|testene|testerna|testerne)(?: \w+){0,3} (?:går igenom|passerar|passerer|består|grön\w*|
            grønn\w*|grøn\w*|lykkes); på plats; på plass; testit (?:menevät|läpäis\w+)
    """,
    unless=r"""
        inte; ikke; ej; nästan; nesten; næsten; innan; før; när; når; om; hvis; ska; skal; bör; bør; ännu; ennå;
        endnu; delvis; kan; aldrig; ei; eivät; melkein
    """,
    unfinished=r"""
        (?:nu|nå|härnäst|næste|neste|därefter|deretter|sedan|så) (?:ska|skal|fortsätter|fortsetter|
            fortsætter|går|tar|tager|kommer) (?:jag|jeg); (?:återstår|gjenstår|mangler|saknas|kvar)(?: \w+)*;
        så här långt; så långt; så langt; i morgon; i morgen; imorgon; hälften; halvparten; halvdelen;
        nästa steg; neste steg; nästan klar; (?:jag|jeg) (?:fortsätter|fortsetter|fortsætter|ska nu|skal nå);
        inte (?:\w+ )?(?:klar\w*|färdig\w*); ikke (?:\w+ )?(?:ferdig|færdig|klar\w*)
    """,
    partial=r"""
        ste[gp] \d+ (?:av|af) \d+; \d+ (?:av|af) (?:de )?\d+; första (?:delen|steget|halvan);
        første (?:del|delen|steg|halvdel)
    """,
    waiting=r"""
        (?:väntar|venter) (?:jag |jeg |nu |nå )*(?:på|tills|til)(?! ditt| din| svar från dig); i bakgrunden;
        i bakgrunnen; i baggrunden
    """,
    failed=r"""
        (?:kunde|kunne|lyckades|klarte|lykkedes) (?:jag |jeg |det |mig |meg )*(?:inte|
            ikke)(?! test\w+| kör\w*| verifi\w+); misslyckades; mislyktes; mislykkedes; ger upp; gir opp;
        giver op
    """,
    failing=r"(?:misslyckas|feiler|fejler)(?: \w+)*",
    blocked=r"""
        kan (?:jag |jeg )?(?:inte|ikke) (?:fortsätta|fortsette|fortsætte|gå vidare); blockerad; blokkert;
        blokeret;
        (?:saknar|mangler) (?:\w+ )?(?:behörighet\w*|åtkomst|tilgang|adgang|rettigheter|tillatelse|lösenord)
    """,
    ask=r"""
        (?:vill du|vil du|ska jag|skal jeg|bør jeg|önskar du)(?=.{0,200}\?);
        (?:säg|si|sig|berätta|fortell) (?:till )?(?:vilke\w*|hvilke\w*|vad|hva|hvad|hur|hvordan|om jag ska);
        (?:bekräfta|bekreft|bekræft|välj|velg|vælg)(?: \w+)*
    """,
    offer="(?:säg till|si fra|sig til|hör av dig|gi beskjed) (?:om|hvis); om du vill; hvis du vil(?! ha)",
    inquiry=r"""
        förklara; forklar; varför; hvorfor; hur; hvordan; vad; hva; hvad; vilken; hvilken; beskriv; analysera;
        analyser; jämför; sammenlign; undersök; undersøg; undersøk; granska; planera; planlegg
    """,
)
