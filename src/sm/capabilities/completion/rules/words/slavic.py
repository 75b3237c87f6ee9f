"""Russian, Ukrainian, Polish and Czech."""

from sm.capabilities.completion.rules.words.vocabulary import Words

RUSSIAN = Words(
    done=r"""
        ^(?:всё |все |ок,? )*(?:готово|сделано|выполнено|завершено|закончено|закончил[аи]?|
            завершил[аи]?)(?= *[^\w ]| *$);
        (?:задача|работа|всё|все|отчёт) (?:полностью )?(?:выполнена|завершена|готова|готово|сделано|
            закончена|готов); полностью (?:готово|завершено|выполнено)
    """,
    work=r"""
        ^(?:я )?(?:также )?(?:ис|до|об|у|с|на|за|пере|под|при|от|вы|по|раз|про|из)\w{3,}(?:л|ла|ли)(?= );
        (?:исправлен|добавлен|удалён|удален|обновлен|обновлён|создан|настроен|реализован|проверен|
            переименован|заменен|заменён|перенесен|перенесён|написан|устранен|устранён|покрыт|описан|собран|
            опубликован|развёрнут|слит)[аоы]?;
        (?:тесты|сборка|всё|все) (?:[^.;]{0,30} )?(?:проходят|проходит|прошли|прошла|успешно|зелёные|
            зеленые|работает); (?:теперь|снова) (?:работает|проходит|\w+ет)
    """,
    unless=r"""
        не; нет; никогда; почти; частично; когда; если; до; пока; должно; должен; должна; должны; может; будет;
        будут; без; ещё; еще; после; наполовину; прежде
    """,
    unfinished=r"""
        в работе(?= *[.,;]| *$);
        (?:осталось|остались|осталась|остаётся|остается|остался); продолжаю;
        (?:далее|дальше|затем|теперь|потом|сейчас) (?:я )?(?:займусь|перейду|буду|приступлю|сделаю|начну|
            напишу|перехожу|возьмусь|продолжу); перехожу (?:к|ко); приступаю; (?:следующий|следующим) шаг\w*;
        пока (?:что|только); в процессе; (?:продолжу|доделаю|допишу|займусь|приступлю);
        (?:ещё|еще|пока) в работе; завтра; половин\w+; почти (?:готово|закончил\w*|сделано);
        (?:ещё|еще) (?:не|нужно|надо|предстоит|осталось);
        не (?:готово|закончен\w*|завершен\w*|завершён\w*|доделан\w*)
    """,
    partial=r"шаг \d+ из \d+; \d+ из \d+; перв(?:ая|ый|ую|ое) (?:часть|этап|шаг|половин\w+)",
    waiting=r"""
        (?:жду|ожидаю|подожду)(?! ваш| твой| вашего| твоего| ответа| решения); в фоне;
        (?:ещё|еще) (?:работает|работают|выполняется|идёт|идет)
    """,
    failed=r"""
        (?:\w+ )?не (?:удалось|получилось|смог|смогла|вышло|сумел\w*|нашёл|нашел|нашла)(?! (?:проверить|
            протестировать|запустить)); безуспешно; сдаюсь;
        (?:невозможно|не могу) (?:исправить|собрать|решить|починить)
    """,
    failing=r"""
        (?:по-прежнему|всё ещё|все еще|всё еще) (?:падает|падают|не работает|не проходит|не проходят|красн\w+);
        (?:падает|падают|не проходят|не проходит|завершилась с ошибкой); провален\w*; упал[аи]?
    """,
    blocked=r"""
        не могу (?:продолжить|продолжать|двигаться); заблокирован\w*(?= *[^\w ]| *$);
        нет (?:\w+ )?(?:доступа|прав|разрешения|пароля|ключа|учётных);
        (?:нужен|нужны|требуется|требуются|не хватает) (?:\w+ ){0,2}(?:доступ|доступа|права|прав|пароль|
            ключ|учётные|учетные|разрешение)
    """,
    ask=r"""
        (?:подскажите|подскажи|скажите|скажи|сообщите|сообщи|уточните|уточни|подтвердите|подтверди|выберите|
            выбери|решите|реши)(?:,? пожалуйста)?(?! если| когда);
        (?:нужно|требуется|необходимо|жду) (?:\w+ )?(?:ваше|твоё|твое|решение|подтверждение|ответ\w*|вашего|
            ваш|твой)(?: \w+)?
    """,
    offer=r"""
        если (?:нужно|хотите|хочешь|потребуется|надо|захотите|понадобится); могу (?:также|ещё|еще|и);
        дайте знать,? если; дай знать,? если; обращайтесь; сообщите,? если
    """,
    inquiry=r"""
        объясни\w*; почему; как; что; какой; какая; какие; где; кто; когда; сколько; проанализируй\w*;
        сравни\w*; опиши\w*; найди\w*; составь план; спланируй; проверь\w*; исследуй\w*; оцени\w*; перечисли\w*;
        выясни\w*; зачем; изучи\w*
    """,
)

UKRAINIAN = Words(
    done=r"""
        ^(?:все |усе )*(?:готово|зроблено|виконано|завершено|закінчено|закінчив|закінчила)(?= *[^\w ]| *$);
        (?:завдання|роботу|все) (?:виконано|завершено|готово)
    """,
    work=r"""
        ^(?:я )?(?:також )?(?:додав|додала|виправив|виправила|оновив|оновила|видалив|видалила|створив|
            створила|написав|написала|переніс|замінив|налаштував|налаштувала)(?= );
        (?:виправлено|додано|оновлено|видалено|створено|налаштовано|реалізовано|написано);
        (?:тести|усі|всі|збірка) (?:[^.;]{0,30} )?(?:проходять|проходить|успішно|пройшли)
    """,
    unless="не; ні; ще; майже; частково; коли; якщо; до; поки; має; повинно; може; буде; без; після",
    unfinished=r"""
        (?:залишилось|залишилося|лишилось|лишилося|залишається); продовжую; завтра; половин\w+;
        (?:далі|тепер|потім|зараз) (?:я )?(?:займусь|перейду|буду|зроблю|почну|напишу|переходжу); переходжу до;
        наступн\w+ крок\w*; майже готово; ще (?:не|треба|потрібно)
    """,
    partial=r"крок \d+ з \d+; \d+ (?:з|із) \d+; перш(?:а|ий|у) (?:частин\w+|етап|крок)",
    waiting=r"(?:чекаю|очікую)(?! ваш\w*| твоє\w*| відповіді); у фоні; ще (?:працює|працюють|виконується)",
    failed=r"""
        не (?:вдалося|вийшло|зміг|змогла|знайшов|знайшла)(?! (?:перевірити|протестувати|запустити)); безуспішно
    """,
    failing="(?:досі|все ще) (?:падає|падають|не працює|не проходять); (?:падає|падають)",
    blocked=r"не можу (?:продовжити|продовжувати); заблоковано; немає (?:\w+ )?(?:доступу|прав|дозволу)",
    ask=r"""
        (?:підкажіть|підкажи|скажіть|скажи|уточніть|підтвердіть|підтвердь|оберіть|обери|виберіть|
            вибери)(?:,? будь ласка)?(?! якщо);
        (?:потрібно|потрібне|чекаю) (?:\w+ )?(?:ваше|твоє|рішення|підтвердження|відповід\w+)
    """,
    offer="якщо (?:потрібно|хочете|хочеш|треба); можу (?:також|ще)",
    inquiry=r"""
        поясни\w*; чому; як; що; який; яка; які; де; хто; коли; скільки; проаналізуй\w*; порівняй\w*; опиши\w*;
        знайди\w*; перевір\w*; склади план; досліди\w*
    """,
)

POLISH = Words(
    done=r"""
        ^(?:wszystko |ok,? )*(?:gotowe|gotowy|gotowa|zrobione|zakończone|ukończone|skończone|skończyłem|
            skończyłam)(?= *[^\w ]| *$);
        (?:jest|są) (?:już |teraz |wszystko )*(?:gotow[eay]|zakończon[eay]|ukończon[eay]|skończon[eay]|
            zrobion[eay]); zadanie (?:zostało )?(?:zakończone|wykonane|ukończone)
    """,
    work=r"""
        ^\w{3,}(?:ano|ono|ęto)(?= ); zakończon\w+ sukcesem; ^(?:już |też |także )?\w{3,}(?:łem|łam)(?= ); (?:i|oraz|,) (?:też )?\w{3,}(?:łem|łam)(?= );
        (?:został|została|zostało|zostały|jest|są) (?:\w+ )?\w{3,}(?:any|ana|ane|ony|ona|one|ty|ta|te);
        testy (?:[^.;]{0,30} )?(?:przechodzą|przeszły|zielone|działają);
        (?:przechodzą|działa) (?:teraz|już|poprawnie|wszystkie)
    """,
    unless=r"""
        nie; nigdy; prawie; częściowo; kiedy; gdy; jeśli; jeżeli; zanim; aż; powinno; powinien; powinna;
        powinny; może; będzie; bez; jeszcze; po; dopóki
    """,
    unfinished=r"""
        (?:pozostało|pozostał\w*|zostało|zostały) (?:jeszcze |mi )*(?:do|\d+|tylko);
        (?:teraz|następnie|potem|dalej) (?:zajmę|przejdę|zrobię|napiszę|zacznę|będę|przechodzę|biorę);
        przechodzę do; kontynuuję; następny krok; następnym krokiem; na razie; dotychczas; jutro; połow[aęy];
        w toku; w trakcie; prawie (?:gotow\w+|skończ\w+); jeszcze (?:nie|trzeba|muszę|do zrobienia);
        nie(?:skończone|gotowe)
    """,
    partial=r"krok \d+ z \d+; \d+ z \d+; pierwsz(?:a|y|ą|e) (?:część|etap|krok|połow\w+|moduł)",
    waiting=r"""
        (?:czekam|poczekam)(?! na (?:twoj|państwa|odpowiedź|decyzj)); w tle;
        (?:wciąż|jeszcze) (?:pracuje|pracują|trwa); nadal trwa
    """,
    failed=r"""
        nie (?:udało|mogłem|mogłam|zdołałem|zdołałam|byłem w stanie|znalazłem|znalazłam|
            potrafię)(?: się)?(?! (?:przetestować|sprawdzić|uruchomić)); bez powodzenia; poddaję się;
        nie da się (?:naprawić|zbudować)
    """,
    failing=r"""
        (?:nadal|wciąż|dalej) (?:nie przechodz\w+|nie działa\w*|pada\w*|czerwon\w+|zawodz\w+); nie przechodz\w+;
        zakończyła? się błędem
    """,
    blocked=r"""
        nie mogę (?:kontynuować|iść dalej|dalej); zablokowan\w+(?= *[^\w ]| *$);
        (?:brak|nie mam|potrzebuję|brakuje)(?: mi)? (?:\w+ )?(?:dostępu|uprawnień|hasła|klucza|tokenu|
            danych logowania)
    """,
    ask=r"""
        (?:powiedz|daj znać|napisz|wskaż)(?: mi)?(?: proszę)?,? (?:któr\w+|co|jak|czy|gdzie);
        (?:proszę )?(?:potwierdź|wybierz|zdecyduj|potwierdzić|wybrać|o (?:decyzję|potwierdzenie|odpowiedź));
        potrzebuję (?:twojej|decyzji|odpowiedzi|potwierdzenia);
        czekam na (?:twoj\w+|państwa|odpowiedź|decyzj\w+)
    """,
    offer=r"""
        (?:jeśli|jeżeli) (?:chcesz|potrzebujesz|trzeba|wolisz); daj znać,? (?:jeśli|jeżeli|gdyby);
        mogę (?:też|również|także)
    """,
    inquiry=r"""
        wyjaśnij; dlaczego; jak; co; który; która; które; gdzie; kto; kiedy; ile; czy; przeanalizuj; porównaj;
        opisz; znajdź; zaplanuj; sprawdź; zbadaj; oceń; wypisz; wymień; przejrzyj; po co
    """,
)

CZECH = Words(
    done=r"""
        ^(?:vše |všechno |ok,? )*(?:hotovo|hotové|dokončeno|splněno|dokončil jsem|
            dokončila jsem)(?= *[^\w ]| *$);
        (?:je|jsou) (?:nyní |už |teď |vše )*(?:hotov\w*|dokončen\w*)(?= *[^\w ]| *$| a);
        úkol (?:je )?(?:splněn|dokončen|hotov)
    """,
    work=r"""
        \w{3,}l[ai]? jsem(?= ); jsem \w{3,}l[ai]?(?= );
        (?:je|jsou|byl[aoiy]?) (?:\w+ )?(?:opraven|přidán|odstraněn|aktualizován|vytvořen|přejmenován|
            nahrazen|nastaven|implementován)[aáoéyí]*;
        testy (?:[^.;]{0,30} )?(?:procházejí|prochází|prošly|zelené);
        ^(?:opraveno|přidáno|odstraněno|aktualizováno|vytvořeno|přejmenováno|nahrazeno|nastaveno|přeloženo|smazáno|
            nasazeno|odesláno|přesunuto)(?!\w)
    """,
    unless=r"""
        ne; není; nejsou; nikdy; skoro; téměř; částečně; když; až; pokud; než; měl; mělo; měla; by; může; bude;
        bez; ještě; zatím; po
    """,
    unfinished=r"""
        (?:zbývá|zbývají|chybí ještě|ještě (?:chybí|zbývá|není|musím|nejsou));
        (?:teď|nyní|dále|potom|pak) (?:se pustím|přejdu|budu|udělám|napíšu|začnu|pokračuji); pokračuji;
        další krok; zítra; polovin\w+; zatím; téměř hotovo; skoro hotovo; není (?:ještě )?hotovo
    """,
    partial=r"krok \d+ z(?:e)? \d+; \d+ z(?:e)? \d+; první (?:část|krok|fáze|polovina)",
    waiting=r"""
        (?:čekám|počkám)(?! na (?:vaš|tv|odpověď|rozhodnutí)); na pozadí; stále (?:běží|pracuje|pracují)
    """,
    failed=r"""
        (?:nepodařilo|nezdařilo) se(?: mi)?(?! (?:otestovat|ověřit|spustit));
        (?:nemohl|nemohla|nedokázal|nedokázala|nenašel|nenašla) jsem; bez úspěchu; vzdávám
    """,
    failing=r"""
        (?:stále|pořád) (?:selhává|selhávají|padá|padají|neprochází\w*); (?:selhává|selhávají|selhal[aoiy]?)
    """,
    blocked=r"""
        nemohu (?:pokračovat|dál); nemůžu (?:pokračovat|dál);
        (?:nemám|chybí|potřebuji) (?:mi )?(?:\w+ )?(?:přístup|oprávnění|heslo|klíč|práva|přihlašovací)
    """,
    ask=r"""
        (?:řekni|řekněte|dej vědět|dejte vědět|napiš|napište)(?: mi)?(?: prosím)?,? (?:kter\w+|co|jak|zda|
            jestli mám|kde); (?:prosím )?(?:potvrď|potvrďte|vyber|vyberte|rozhodni|rozhodněte)(?= |\W|$);
        potřebuji (?:vaše|tvé|rozhodnutí|odpověď|potvrzení|vědět)
    """,
    offer=r"""
        (?:pokud|jestli) (?:chceš|chcete|potřebuješ|budeš chtít); dej vědět,? (?:pokud|kdyby); mohu (?:také|i)
    """,
    inquiry=r"""
        vysvětli; proč; jak; co; který; která; které; kde; kdo; kdy; kolik; analyzuj; porovnej; popiš; najdi;
        naplánuj; zkontroluj; prozkoumej; zjisti; vypiš; zhodnoť
    """,
)
