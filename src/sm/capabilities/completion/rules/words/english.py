"""English."""

from sm.capabilities.completion.rules.words.vocabulary import Words

# Verbs that say that a piece of work is finished. Verbs of looking and thinking are not among them, nor are verbs
# whose participle describes code as it is (`the token is validated in ...`): those are in `_DESCRIBING`.
_RESULT = (
    r"(?:added|fixed|opened|removed|implemented|updated|created|deleted|renamed|moved|merged|pushed|committed|"
    r"resolved|replaced|"
    r"refactored|migrated|converted|installed|upgraded|downgraded|bumped|written|rewritten|extracted|"
    r"ported|cleaned(?: up)?|"
    r"closed|reopened|addressed|applied|rebuilt|published|deployed|released|tagged|reverted|restored|"
    r"restarted|killed|pinned|"
    r"wired(?: up| in| into)?|set up|documented|translated|locali[sz]ed|synced|rebased|solved|corrected|"
    r"adjusted|simplified|"
    r"integrated|switched|dropped|patched|optimi[sz]ed|reformatted|silenced|freed|dealt with|shipped|"
    r"landed|squashed|"
    r"consolidated|tightened|hardened|backed up|rolled back|rolled out|finali[sz]ed|taken care of|"
    r"sorted out|swapped|eliminated|"
    r"purged|pruned|trimmed|cleared|reset|reconfigured|adapted|edited|"
    r"amended|revised|reworked|"
    r"redesigned|restyled|polished|improved|enhanced|backfilled|repaired|"
    r"unblocked|re-?enabled|"
    r"disabled|reorgani[sz]ed|restructured|streamlined|dedupl\w+|normali[sz]ed|"
    r"paralleli[sz]ed|relocated|"
    r"copied|uploaded|emailed|posted|answered|replied|labell?ed|containeri[sz]ed|dockeri[sz]ed|"
    r"packaged|minified|"
    r"compressed|factored out|hoisted|pulled out|tidied(?: up)?|"
    r"decommissioned|generali[sz]ed|"
    r"decoupled|backported|cherry-picked|bootstrapped|scaffolded|completed|finished|found and fixed|"
    r"unpinned|vendored|"
    r"revoked|reinstalled|rewired|instrumented|regenerated|recreated|relabelled|resized|"
    r"exported)"
)
_DESCRIBING = (
    r"(?:disabled|deprecated|closed|archived|revoked|changed|modified|extended|compressed|automated|retired|inserted|"
    r"appended|exported|imported|annotated|packaged|unified|expanded|rotated|decoupled|introduced|populated|aligned|"
    r"stripped|inlined|built|configured|generated|verified|tested|covered|enabled|formatted|sorted|handled|saved|"
    r"registered|linked|filtered|"
    r"validated|pulled|bundled|stopped|wrapped|cached|logged|hidden|exposed|mapped|encrypted|signed|"
    r"compiled|confirmed|benchmarked|hooked up|guarded|stored|"
    r"mocked|stubbed|recorded|measured|split)"
)
_SIMPLE_PAST = (
    r"(?:ran|wrote|rewrote|set|made sure|took care|re-?ran|put|gave|brought|tore out|sped up|cut|turned|"
    r"got rid|"
    r"made(?! (?:some|a few|several|changes|many|good|progress|an attempt|the following changes|little)))"
)
_DONE_TO = rf"(?:{_RESULT}|{_DESCRIBING})"
_ADVERBS = r"(?:now |also |just |all |both |then |successfully |fully |again |since |already |thus |completely |correctly |been )*"
_NO_VERB = (
    r"(?:(?!(?:is|are|was|were|be|been|being|gets?|to|will|can|not|never|i|we|you|that|which|needs?|has|"
    r"have|had|how|what|if|when|"
    r"should|must|for|only|once)\b)[^.,;: ]+ ){1,8}"
)
_TESTS = (
    r"(?:tests?|suites?|checks?|ci|builds?|pipelines?|specs?|lint\w*|e2e|smoke tests?|type ?check\w*|"
    r"assertions|"
    r"everything|all|it|they|mypy|pytest|ruff|eslint|clippy|tsc|image|container)"
)
_GREEN = (
    r"(?:pass(?:es|ed|ing)?|(?:is|are|was|were|stays?|all) green|green|succeed(?:s|ed)?|succeeds|clean|happy|"
    r"(?:is|are) (?:clean|happy|ok|fine))"
)
_NUMBER = r"(?:two|three|four|five|six|seven|eight|nine|ten)"

ENGLISH = Words(
    done=rf"""
        ^(?:ok(?:ay)?|k|yes|yep|yup|great|alright|and|so|
            perfect)?[,.! ]*(?:all |now |it's |that's |i'm |we're )*
            (?:done|finished|completed?)(?! with| by| in part)(?: and \w+)?(?= *(?:[^\w ]|$|and|in|as|for));
        ^done with (?:it|that|this|everything|all|the (?:task|work|job|whole))(?! of);
        (?:is|are|am|i'm|it's|that's|all's|has been|have been|we're) {_ADVERBS}(?:done|finished|complete|
            completed);
        (?:task|work|job|everything|ticket|issue|story|implementation|migration|refactoring|refactor|
            feature|port|
            upgrade|update|fix|review|audit|analysis|cleanup|clean-up) (?:is )?{_ADVERBS}
            (?:complete|completed|done|finished|in place)(?= *[^\w ]| *$);
        i (?:have |'ve )?{_ADVERBS}(?:finished|completed)(?: with)? (?:the|this|it|all|everything|my|your);
        i've {_ADVERBS}(?:finished|completed) (?:the|this|it|all|everything|my|your);
        all \w+ ?(?:\w+ ){{0,4}}(?:is|are|have been|has been)? ?{_ADVERBS}(?:done|finished|complete|
            implemented|fixed|met|
            addressed|resolved);
        that(?:'s| is| was) (?:it|all|everything)(?= *(?:[^\w ]|$))(?! i| you| we);
        nothing (?:else|more|further) (?:is |was )?(?:needed|required|to do|left to do|remains);
        no (?:further|other|more|additional) (?:\w+ )?(?:action|changes?|work|steps?)(?: \w+)? (?:is |are )?
            (?:needed|required|necessary);
        acceptance criteria (?:are |have been )?met;
        ready (?:to ship|to merge|for review|to use|for use|to go|for production);
        all set; all good now; good to go; ^shipped; ^(?:all )?gone(?= *[^\w ]| *$); wrapped up;
        ^mission accomplished
    """,
    work=rf"""
        ^(?:ok(?:ay)?|k|yes|yep|great|alright|so|perfect|and|right|cool|sure|excellent|nice)?[,.! ]*
            (?:i |we |i've |we've |i have |we have |have |has )*{_ADVERBS}(?:{_DONE_TO}|ran|wrote|rewrote|re-?ran|covered (?:with|by)|got rid of)(?! by );
        (?:i|we|i've|we've|i have|we have) {_ADVERBS}(?:{_DONE_TO}|{_SIMPLE_PAST});
        i .{{1,80}} and (?:also )?{_RESULT};
        ^\w{{1,12}} ?(?:,|\+|&|and|then) ?{_DONE_TO};
        (?:has been|have been|had been|is now|are now) {_ADVERBS}{_DONE_TO}; (?:was|were) {_ADVERBS}{_RESULT}(?! (?:by|in (?:the last|version|an earlier)|when|before|last|earlier|recently)\b);
        (?:is|are) out(?! of);
        (?:is|are|it's|that's) {_ADVERBS}{_RESULT}(?! (?:by|when|if|whenever|each|every|at runtime|lazily|
            per|only)\b);
        ^{_NO_VERB}{_DONE_TO}(?= *(?:[.,;:!(–—+-]|$|in |into|from|with|to |by |on |and|as |for|through|
            under|at ));
        \d+ (?:tests? )?(?:added|removed|changed|updated|replaced|fixed); (?:same|just|exactly) as before; as (?:they|it) did(?= before| *[^\w ]| *$);
        ^{_NO_VERB}(?:done|complete)(?= *(?:[.,;:!(]|$|everywhere|now|and ));
        now (?!(?:i|i'm|i'll|i've|let|let's|we|the|to|that|is|it's|it|you|for|on|\w+ing)\b)\w+;
        stays? at \d[\d.,]*; (?:is|are) now(?! (?:waiting|running|working on|\w+ing));
        ^(?!i |we |let)\D{{1,80}} now(?= *(?:[.,;:!(–—-]|$)); in there now; in place(?= *[^\w ]| *$);
        (?:is|are) (?:gone|live|up and running|up to date|ready|back up|all gone|through|back to normal|
            over|history|raus);
        went (?:down )?from .{{1,40}} to; fell from .{{1,40}} to; (?:is )?down (?:to|\d+);
        (?:down|up) from \d[\d.,]*; instead of \d[\d.,]*; rather than \d[\d.,]*; used to (?:be|take|need);
        works? (?:now|again|as expected|correctly|fine|on all|in all|without|end to end);
        (?:matches|match) \w+ again; ^here you (?:go|are);
        {_TESTS}(?: [^.;]{{0,60}}?)? {_GREEN}; [1-9]\d* (?:tests? )?(?:passed|passing|pass);
        (?:unit )?tests? cover;
        no (?:errors|warnings|issues|problems|failures|differences|findings|regressions)(?! yet);
        (?:reports?|finds?|shows?) (?:0|no|nothing); (?:0|zero) (?:failures?|errors?|violations?|differences?) (?:in|after|of|over); found (?:0|no) (?:errors?|issues?|problems?|differences?|regressions?|warnings?|violations?|leaks?);
        (?:builds?|runs|starts|opens) (?:and|fine|without|cleanly);
        (?:free|healthy|online|green) again;
        ^here(?:'s| is| are) (?:the|your|a|an)(?= )(?! \w* ?(?:plan|outline|proposal|approach|idea|
            overview|situation|list of what|issue|
            problem|draft|sketch|thing|options?|status|question|state|breakdown|current|problems|analysis|
            summary of what));
        no longer; ^no \w+ \w+ any ?more; (?:there are|there is) no [^.]{{1,40}} any ?more; has stopped;
        (?:is|are) identical; reads? the same; now live in
    """,
    unless=r"""
        not; (?:do|does|did|is|are|was|were|has|have|had|ca|could|wo|would|should|must|need|ai)n't; never; without; cannot; nearly; almost; mostly; partly; partially; half;
        hardly; barely;
        before; until; once; if; when; whenever; will; would; could; should; must; might; may; can;
        cannot; to be;
        unless; as soon as; after; needs?; haven't; hasn't; isn't; aren't; wasn't; weren't; neither; nor;
        expected;
        supposed; ought; except; yet to; far from; too early; instead of; planned; so that; rather than;
        whether; until
    """,
    unfinished=r"""
        \d+ more to \w+; but not (?:yet )?(?:wired|scheduled|connected|deployed|moved|enabled|hooked up)(?= *[.,;]| *$);
        (?:half|partly) (?:translated|written|migrated|converted|moved);
        i(?:'ll| will| shall)(?! be (?:happy|glad)| leave| gladly)(?: \w+)?;
        i(?:'m| am) (?:now |still |currently |just |next )*
            (?!giving|leaving|missing|sorry|seeing|using|assuming|being)\w+ing;
        let me(?! know| add that| note| point);
        next,? i; ^next(?: up)? ?[:,–—]; now i(?:'ll| will|'m);
        ^now (?:for |to |the |let's |on to |\w+ing); moving on;
        ^continuing; continuing with; (?:and|but) (?:i )?(?:now )?(?:going|moving|continuing|
            carrying) on (?:to|with);
        so far; ^todos? ?:; ^(?:still )?to ?-?do ?:; in progress; keep(?:ing)? (?:on )?going; underway;
        (?:is|are) next(?= *[^\w ]| *$);
        (?:will|to) follow(?= *[^\w ]| *$); (?:i |i've |have |has )?not (?:yet )?(?:been )?started;
        haven't (?:yet )?(?:started|begun|
            gotten|got round|got to|finished|done|touched);
        hasn't (?:yet )?been (?:started|done|touched|implemented);
        ^(?:not started|in work|wip|ongoing|pending); \[ \]; ⏳; ❌; 🔄; 🚧;
        (?:about |roughly |the first |one )?half (?:of|done|the \w+); halfway; half-way;
        will (?:ramp|continue|resume|pick up);
        still (?:\w+ )?(?:to (?:be|do)|missing|outstanding|to come|left|in the works|needs? to|have to|
            has to|working on|
            running|compiling|pending|unported|to go|open ?:); what(?:'s| is| remains) left;
        (?:one|two|three|\d+) (?:more )?to go;
        ^(?:first|then|after that|afterwards),? i(?:'ll| will|'m going);
        ^(?:remaining|left|outstanding|open|missing|to go)(?: \w+)? ?:;
        (?:is|are) (?:still )?(?:left|outstanding|pending|unfinished|incomplete|to do|
            open)(?= *[^\w ]| *$|,| for| until);
        ^(?:checking|running|working on|looking (?:at|into)|investigating|testing|starting|resuming|proceeding)
            (?!.*(?:pass|found|shows?));
        not (?:yet |quite |entirely |fully |completely |all )*(?:done|finished|complete|completed|ready|
            there yet|everything);
        (?:do|does|did|is|are|was|were|has|have|had|ca|wo|would)n't (?:yet |quite |entirely |fully |completely |all |been |call \w+ |say \w+ \w+ |consider \w+ )*(?:done|finished|complete|
            completed|ready|there yet);
        not (?:call|consider|say) \w+ (?:\w+ )?(?:done|finished|complete); unfinished; incomplete;
        (?:almost|nearly|mostly|partly|partially|half|not quite) (?:done|finished|complete|completed|
            there|ready|through);
        most of (?:the|it|them|my) [^.;]{0,40}(?:is|are) (?:done|complete|finished|in place|ready);
        will be back; checking back; yet to \w+; (?:still )?ahead of (?:me|us);
        (?:is|are) (?:still )?ahead(?= *[^\w ]| *$); to come(?= *[^\w ]| *$); ^on to; on to the next;
        \w+ (?:still )?open ?:; still open;
        (?:tomorrow|later today|next week|next session|next time)(?! morning's);
        (?!100)\d{1,2} ?% (?:done|complete|completed|finished|through|of the way);
        ^\w+ing ?(?:\.\.\.|…); under ?way; (?:is|are|comes) (?:up )?next(?= *[^\w ]| *$); comes next;
        want to move; (?:needs?|remain) (?:more|further|some) work; not there; early days; watching it;
        i want to(?! thank| note| point); plan is to; (?:where|when) i (?:left|stopped|am); left off; got (?:as|so) far as; (?:starting|working) (?:on|with) (?:it|that|this|them|the|#\d+|\d+); looking (?:at|into) [^.]{1,40} (?:next|now); i plan to; i intend to;
        needs to be (?:changed|done|fixed|added|written|updated|implemented)
    """,
    partial=rf"""
        (?:step|phase|part|stage|chapter|milestone|task|item|batch|section|round|iteration) \d+ ?(?:of|/) ?\d+;
        \d+ ?(?:of|/|out of) ?(?:the )?\d+ (?!times?)[a-z]+; {_NUMBER} of (?:the )?{_NUMBER};
        \d+ of (?:the )?\d+(?= *[^\w ]| *$);
        (?:remains?|remaining)(?! \w+ (?:is|are) (?:done|finished)); remain(?:s|ing)? to be \w+;
        yet to be \w+; to be done;
        the (?:first|second) (?:half|part|chapter|step|phase|batch|group|section|module|two|three|four|
            few|stage|milestone);
        ^first (?:half|part|chapter|step|phase|batch|group|section|module|pass|draft of the first);
        (?:is|are|comes?|come|will be|come) next; next steps? ?:?$; ^next steps?;
        ^(?:the )?(?:rest|others?|remaining) (?:will|is|are|still|needs?|of);
        (?:step|phase|part|stage|round|milestone|chapter|module|item) (?:\d+|one|i|a)(?: \([^)]*\))? ?(?::|is|are|-|–) ?(?:now )?(?:done|complete|completed|finished|ready|in);
        (?:step|phase|part|stage|round|milestone|chapter) (?:\d+|one|i|a) (?:done|complete|completed|finished);
        that(?:'s| is| was) the (?:first|second|third); (?:comes?|follows?) (?:after|next|later|then|last);
        not started; (?:-|–|—|:) ?(?:pending|todo|to do|missing|in progress|wip|not yet)(?= *[^\w ]| *$); (?:items?|things?|work|parts?|points?) (?:left|remaining)
    """,
    waiting=r"""
        (?:i'm |i am |am |now |and |just |still |currently |we're )wait(?:ing)? (?:for|on|
            until)(?! your| you| the user|
            feedback from you); ^waiting (?:for|on|until)(?! your| you| the user); i(?:'ll| will) wait(?! for your| for you); spawned; delegated; dispatched;
        hand(?:ed|ing) (?:\w+ )?(?:over|off|the \w+ to|it to|them to|out); assigned (?:\w+ )?(?:\w+ )?to;
        started \w+ (?:workers|agents|children|
            sub-?agents|engineers); (?:runs?|running|started|kicked off|launched|going|executing|
            proceeding) (?:\w+ )?in the background;
        (?:is|are) (?:still |now |currently )*(?:running|compiling|training|
            being processed|working(?! (?:again|now|as|correctly|fine)));
        kicked off; when (?:it|they) (?:is |are )?(?:finish|done|complete|end)\w*;
        being \w+ed; \d+ waiting;
        (?:results?|numbers) (?:is|are) (?:expected|due);
        submitted (?:\w+ )?to the (?:cluster|queue|scheduler|grid);
        i(?:'ll| will) be (?:woken|notified|told); (?:have|has) (?:their|its|a) (?:tasks?|orders|
            assignments?); nothing (?:to do|left) for me (?:until|till); on (?:their|its) way;
        now (?:monitoring|watching|waiting);
        (?:agents?|workers?|children|child|sub-?agents?|engineers?) (?:is|
            are) (?:still |now |all )*(?:working|busy|on it|running)
    """,
    failed=r"""
        ^(?:fatal|error|gh|curl|npm err|make|bash|sh|git): *;
        went wrong(?= *[^\w ]| *$);
        can(?:'t|not) be (?:done|fixed|solved|repaired|built|made)(?= *[^\w ]| *$| without| here| with| like); no luck; out of ideas; (?:this|that|it) (?:one )?beat me; to no avail; in vain; (?:didn't|did not|doesn't) work out; (?:i|we)(?:'ve| have| had to)? (?:rolled?|backed?) (?:it|this|that|them|everything|it all|all of it) (?:back|out);
        (?:i|we|i've|we've|and|but) (?:still |also |therefore |have |was |am |were |simply )*(?:could not|
            couldn't|wasn't able to|
            not able to|weren't able to|unable to|failed to|cannot|can't|did not manage to|
            didn't manage to|not succeeded|
            did not succeed|didn't succeed) (?!run|test|verify|check|confirm|tell|say|see|find any|
            help noticing|be sure|promise|guarantee)\w+;
        ^(?:unfortunately,? |sorry,? |sadly,? )*(?:i |we |it )?(?:could not|couldn't|unable to|failed to|
            not able to|was not able to|
            wasn't able to) (?!run|test|verify|check|confirm|tell|say|see|be (?:tested|verified))\w+;
        could(?: not|n't) be (?:fixed|recovered|solved|resolved|built|completed|reproduced|found|
            installed|restored|applied|merged|read|done);
        (?:it |this |that |attempt |attempts |upgrade |approach )?did(?: not|
            n't) work(?: out)?(?! before| on| with(?:out)?); i(?:'m| am|'ve| have)? (?:giving|give|given|gave) up(?! the);
        no success; without success; everything i (?:tried|did) (?:made|broke|failed|ended|only); breaks the build; nothing (?:i tried|worked|helped|helps);
        none of (?:the|these|those|them|my|which) [^.;]{0,40}(?:work|made|make|help|fix|solve|
            succeed)\w*; put everything back;
        (?:reverted|undid|rolled back|backed out) (?:all|everything|my|the changes|it all)(?! merge);
        neither (?:helped|worked); had no effect; no luck;
        (?:don't|do not) (?:see a way|see how|know how|know why|know what|understand why);
        every (?:approach|attempt|try) (?:broke|failed|made);
        i (?:was |have been |am )?(?:not succeeded|unsuccessful); was unsuccessful; to no avail;
        beyond repair; i'm stuck(?= *[^\w ]| *$); i am stuck(?= *[^\w ]| *$);
        (?:i|we) failed(?= *[^\w ]| *$); makes no progress; haven't figured out;
        no idea (?:why|how|what); refuses to (?:load|build|start|run|compile|install);
        not (?:possible|solvable) (?:to|for me)
    """,
    failing=r"""
        (?:job|process|run|script|import|export|server|task|migration|training|worker|deploy|deployment|upload|download|installation|upgrade|command|benchmark|suite|daemon|container|app) (?:has |had |just )?(?:died|crashed|blew up|fell over|froze|hung|bounced|diverged|aborted|was killed|got killed|ended red);
        (?:ended|ends|came out|stays?|stayed|remains?) red(?= *[^\w ]| *$| at| with| because);
        (?:still|keeps?|continues? to|always) (?:fail|crash|break|error|hang|throw|time out|timing out|
            red|broken)\w*;
        (?:is|are|it's|that's) (?:still |now |currently |both |all )*(?:failing|broken|red|
            crashing)(?= *[^\w ]| *$|,| with| on| because| at| in| and);
        (?:tests?|builds?|compil\w+|installation|conversion|training|ci|jobs?|suite|deploy\w*|migration|
            import|upload|run|script|lint|
            pipeline|checks?|command|download|push|merge|release|specs?) (?:\w+ ){0,3}(?:fails?|failed|
            failing|crash(?:es|ed)|times? out|timed out|
            aborts?|aborted|errored|broke|breaks?(?! in\b| *[.,;]))(?! on purpose| before| without| with(?:out)? the);
        (?:the |my |this )?(?!(?:0|no|zero|none|nothing|never|which|that)\b)\w+ (?:failed|
            fails)(?= (?:because|due|with|at|on|after|in|again|for|
            as)\b| *[.,:;!] | *[.,:;!]?$)(?! (?:on purpose|before|without));
        (?:is|are) (?:now )?broken; (?:of them )?hangs?(?= *[^\w ]| *$| and| on| at| in);
        still (?:reports?|shows?|has|have|see|sees|gets?) (?:\d+|the same|an?) \w*(?:error|fail|issue|
            warning|problem|crash)?\w*; ended without a result;
        ^failed(?! login); ^error ?:; ^fatal ?:;
        [1-9]\d* (?:(?:of|out of) (?:the )?(?:\d+ )?)?(?:\w+ )?(?:tests? )?(?:still )?(?:fail|failed|
            failing|failures?|errors?)(?! (?:is|are|was|were)|\w);
        exits? with (?:code|status) [1-9]\d*; segfaults?; out of memory(?= *[^\w ]| *$| at| even);
        (?:doesn't|does not|don't|do not|won't|will not) (?:compile|build|pass|work|start|run|load|link|boot)(?= *[^\w ]| *$| on| with| in| at| under| because| any);
        (?:stopped|aborted|bailed out|ended) (?:at|with|after) (?:row|line|step|an?|the) ; nothing was (?:committed|changed|written|saved|applied);
        (?:isn't|is not|aren't|still not|not) working(?! (?:on|with) the old); no (?:workaround|solution|way around|explanation); (?:things|it|matters) (?:even )?worse; now (?:occurs|fails|crashes|hangs) on every;
        misse[sd]? the (?:target|goal|mark|limit); f[ae]ll(?:s|ing)? short; short of the (?:target|goal); ran out of (?:ideas|options|time|tricks);
        had to (?:abort|give up|stop|cancel|back out); neither (?:\w+ ){0,3}(?:can|could|works?|worked|helped|is|was)
    """,
    blocked=r"""
        (?:every|each|all|any|all of my|my) (?:\w+ ){0,2}(?:edits?|writes?|commands?|attempts?|calls?|pushes|push)(?: \w+){0,3} (?:is|are|was|were|gets?|got|has been|have been) (?:refused|denied|rejected|blocked|forbidden);
        (?:i'm|i am|we're|we are|is|am|work is|task is|remains|currently) (?:\w+ )?blocked(?! by default| users?| accounts?| ips?); ^blocked(?! by default| users?| accounts?| ips?); ^blocker ?:;
        without (?:root|sudo|docker|a token|the token|a key|a password|credentials|admin rights|network|
            internet|a vpn|access)(?= *[^\w ]| *$|,| there| i);
        only (?:a human|a person|you|an admin|somebody|someone|the owner) can;
        ^stuck (?:at|on|behind|until|because|waiting); i'm stuck (?:at|on|behind|until|because|waiting);
        (?:can't|cannot|can not|unable to|not able to|couldn't|could not|
            won't be able to) (?:\w+ )?(?:continue|proceed|go on|carry on|go any further|move forward|
            go further|get further|progress|do (?:this|that|anything|it|more) (?:myself|before|until|more|
            from here|else|without|alone));
        (?:don't|do not|doesn't|lack|lacks|lacking|missing|need|needs|require|requires|without) (?:have )?(?:the |any |an? |write |push |read |admin |network |internet |
            sufficient |necessary |right |required |enough |valid |proper |production |deploy )*(?:permissions?|access|credentials?|rights|privileges|api key|token|
            login|password|network|authori[sz]ation|vpn)(?! (?:check|header|test|handling|refresh|
            rotation|expiry)); permissions? (?:\w+ ){0,5}(?:was |were |is )?denied; access (?:is |was )?denied;
        (?:there's |there is )?nothing (?:more |else |further )?(?:that )?i can do;
        only (?:go on|continue|proceed) (?:if|once|when|after); has to wait (?:until|for); stops me from;
        stops me ?:;
        (?:an |the )?(?:admin|maintainer|owner|somebody|someone|human|operator|
            person) (?:\w+ ){0,4}(?:must|has to|needs to|will have to); (?:the|your|deploy|api|signing|ssh|secret) key is missing;
        (?:token|key|password|credentials?|licen[cs]e|certificate|account) (?:has |is |was |are |have |has been )?(?:expired|missing|invalid|revoked|locked|suspended|disabled);
        need (?:a|an) (?:new|valid|different|working) (?:one|token|key|password|account|licen[cs]e|login); requires macos; i need (?:someone|somebody|an admin|a human|you to (?:add|grant|share|log|unlock|enable|install)); until (?:their|the) \w+ (?:unlocks?|grants?|enables?|approves?|fixes|restores?);
        (?:isn't|is not|aren't|are not) (?:available|reachable|accessible|installed)(?: \w+)* (?:so|
            and) i; no (?:access|permission|credentials|network access|internet access|internet) (?:to|
            for|here|from)
    """,
    hedge=r"""
        somewhat; to some extent; (?:a bit|a little|slightly) (?:better|faster|nicer|cleaner)(?= *[^\w ]| *$);
        (?:didn't|did not) get to (?:run|test|try|verify|check)\w*; never (?:actually )?ran(?= *[.,;]| *$| against| on| in);
        (?:had|have|there's|there is|there was) no [^.;]{1,40} to (?:test|try|look|check|run|verify|time|measure) (?:it|this|that|them|with|on|against);
        should (?:now |all |also |hopefully |probably |be able to |again |finally |therefore |then )*(?:work|fix|pass|solve|help|resolve|do it|do the trick|build|compile|
            address|take care|suffice|be (?:now |all |hopefully )*(?:good|fixed|ok|okay|fine|done|
            resolved|working|gone|it|enough|better|complete|solved|correct|set|finished|sufficient));
        (?:probably|hopefully|presumably|supposedly|allegedly|most likely|very likely);
        (?:likely|maybe|perhaps) (?:\w+ )?(?:fix|fixe[sd]|work|works|solve[sd]?|resolve[sd]?|good|ok|done|
            fine|complete|that|this|it|the fix);
        ^(?:probably|hopefully|presumably|maybe|perhaps);
        i (?:think|believe|guess|assume|hope|suppose|suspect)(?! you| it is (?:worth|best)| we should);
        i (?:think|believe|guess|hope)(?= *[.,!] | *[.,!]?$);
        can't (?:say|tell|be sure|guarantee|promise) ?(?:for sure|for certain|whether|if)?;
        hard to (?:tell|say)(?! apart);
        let's see; we'll see; see (?:whether|if) (?:that|it|this);
        (?:feels?|felt) (?:faster|better|ok|right|fine|good|stable|smoother|like); bad feeling;
        no (?:numbers|proof|evidence|way to (?:tell|know|verify|test|check)); in principle;
        untested; unverified; (?:not|\w+n't|
            never) (?:yet |been |been able to |actually |been properly |able to |really )*(?:run|test|
            tested|verify|verified|tried|try|confirm|confirmed|check|checked|validate|validated|
            compiled|executed)(?! any of your);
        without (?:testing|running|having (?:run|tested)|verifying|a test run);
        (?:please|could you|you should|needs? to be|to be|still to be) (?:re-?)?(?:test|tested|verify|
            verified|checked|confirmed)(?! that your);
        theoretically; in theory; might (?:be|have been|now|fix|work|help|do|solve|already);
        may (?:be|have been|now) (?:fixed|working|done|resolved|good|ok|enough); may (?:fix|work|help|solve);
        seems? to (?:be )?(?:work|fixed|working|fix|help|do|pass|done|ok|fine|resolved|have);
        appears? to (?:be )?(?:work|fixed|working|fix|pass|done|resolved|have|help);
        seems (?:ok|fine|good|fixed|done|better);
        (?:looks|looking) (?:ok|good|fine|done|right|fixed)(?: to me| so far|ish)?(?= *[^\w ]| *$);
        takes care of it(?= *[^\w ]| *$); fingers crossed; no guarantees?;
        not (?:\w+ )?sure (?:if|whether|that|it|this); more or less; kind of (?:works?|done);
        sort of (?:works?|done); best guess
    """,
    ask=r"""
        (?:please|pls|kindly) (?:confirm|choose|pick|decide|advise|tell me|approve|select|specify|clarify|
            answer|reply|respond|share your|give me|
            let me know(?! if you| should you| in case| when you| of any| about any| whenever| how it goes| how else));
        (?:let me know|lmk|tell me|just say|say)(?: please)? (?:which|what|how (?:you'd|you would|to|many|
            much|long)|whether|who|where|if (?:you agree|that|this|it|i should|i may|i can|we should|
            these|those|either|the (?:plan|approach|outline|design))|your (?:choice|preference|decision|
            answer|pick|call)|when i (?:can|should)|and i'll);
        ^(?:confirm|pick|choose|decide|approve|select)(?! (?:by|the)\b.*\bwith\b)(?: (?:a|an|one|the|your|
            which|and|or|it|this|that|whether|between|number|option)\b|,|:|$); not my call; your call;
        ^(?:type|reply|enter|say|answer)(?: with)? (?:if|and|to)(?= ); ^say (?:when|go|the word)(?= *[^\w ]| *$); could you (?:fill|send|provide|share|give|tell|check|confirm|create|add|look|clarify);
        ^which (?:one )?(?:do|should|would|of); ^(?:ok|okay|fine|good) (?:to|if i) \w+;
        until (?:you(?:'ve)? (?:confirm|approve|say|decide|answer|reply|choose|have)|i hear (?:back|from)|
            i get your|i have your);
        (?:i|we|i'd|i'll) (?:also |still |first |just |would |will |'d )*(?:need|require|like|want|
            appreciate) (?:a |an |one |your |some |two |three |the following |more |further |to |first )*(?:decisions?|know|answers?|input|confirmation|clarification|go-ahead|approval|ok|okay|sign-?off|opinion|hear from you|details|information|feedback|guidance|direction|choice|ask|understand whether|check with you);
        decisions? (?:is |are )?(?:needed|required|pending|for you|to make)(?! can);
        (?:needs|awaiting|await|pending|waiting for|waiting on|wait for) (?:your|you|the user's|
            an answer from you)(?: \w+)?(?: to)?;
        as soon as you (?:approve|confirm|say|decide|give|answer|agree|tell);
        once you(?:'ve|'re| have| are)? (?:confirm|decide|approve|chosen|choose|answer|pick|happy|tell|
            let|agree|reply|gave|given)\w*;
        once i have (?:the|your|an) (?:answers?|decision|go-ahead|confirmation|ok);
        (?:it's |that's |this is )?(?:your call|up to you|your decision)(?! later);
        (?:your|an?) ok (?:first|before); hold(?:ing)? off;
        before i (?:start|begin|continue|go on|proceed|delete|do|change|write|merge|push|run|touch|remove|
            publish|implement|commit) ?(?:anything|with|this|it|that|the)?,? (?:i need|i'd|please|could|
            can|should|:|tell|let me know(?! if you));
        (?:a few|some|two|three|four|one|a couple of|my|open|quick|
            following) (?:\w+ )?questions?(?: first| before| for you| to| about| :|:| that (?:need|block)|
            $); (?:options|choices|questions for you) ?:$; which way to go;
        how (?:would|do) you (?:want|like|prefer); do you (?:have a preference|want|agree|prefer);
        say the word(?! if)
    """,
    offer=r"""
        (?:let me know|lmk|just (?:say|ask|tell me|shout)|shout|ping me|tell me|say so|give me a shout|
            feel free|please (?:let me know|feel free))(?: \w+){0,3}? (?:if|should|in case|when|whenever|
            to|of any|about any|how it goes|for (?:any|further))(?! you (?:agree|
            approve)| this is| that's| this works); if you(?:'d| would)? (?:like|want|wish|prefer|need)(?:ed)?;
        (?:happy|glad) to(?= *[.!]| \w+); in case you; whenever you; (?:anything|something) else;
        i (?:can|could) also; lmk if; feel free
    """,
    inquiry=r"""
        (?:please |can you |could you |would you |pls |first |just |quickly )*(?:explain|describe|summari[sz]e|review|analy[sz]e|
            compare|list|count|research|investigate|find out|figure out|look (?:at|into|for|up)|
            check (?:if|whether|the|for|that|how|why)|check(?= \w+$)|tell|show|audit|evaluate|assess|estimate|identify|
            diagnose|determine|plan|propose|suggest|recommend|brainstorm|design|draft|outline|code review|
            find(?! a way)|search for|read|
            reply|respond|answer|say|print|write (?:a|an|the|me a) (?:haiku|poem|e-?mail|letter|joke|story|limerick|tweet|regex|commit message|description|summary|answer|statement|query)|
            (?:prepare|write|create|make|produce|draft|do|give me|sketch|put together|
            come up with) (?:(?:a|an|the|me a|me an|some) )?(?:[\w-]+ ){0,3}(?:plan|adr|faq|concept|questions|names|ideas|minutes|report|summary|list|analysis|comparison|
            overview|proposal|explanation|estimate|table|threat model|design|dry run|inventory|roadmap|breakdown|review)|
            produce (?:a|an|the)|dry run|list out|enumerate|get me|brief|benchmark|measure|profile|verify|give|report|
            think about|discuss|study|survey|trace|root cause|bisect|document how|walk|help me understand|compute|calculate|inspect|
            what|what's|why|how|which|who|where|when|
            do (?:we|i|they|these|those)|(?:is|are|does|did|can|could|should|would|has|have|will) (?:we|i|it|this|that|there|the|a|an|our|any|these|
            those|my|all|they))
    """,
)
