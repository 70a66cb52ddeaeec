"""The forms in which people state what is to last: a rule, a preference, a decision, a lesson, a fact about themselves.

English only. The aim is that eight of ten sentences that are found are right, judged by reading real sessions
(`bench/extractive_facts.py` prints them). Those sessions contain few of the forms; the others were tried only on
invented sentences. A sentence that can only be understood in its place is left
out: it says "this", "it" or "the other one", it names a line or the number of a remark, or it speaks of now. So are
questions, suppositions, and what somebody hopes.

Sentences come without their first filler words (`core`), in any case, with or without a full stop.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Form(NamedTuple):
    kind: str
    confidence: float
    pattern: re.Pattern[str]
    #: About the person: what they like, want, are or own.
    about_user: bool
    #: A wish to the agent. In a conversation of two people there is no agent.
    to_agent: bool


def _form(kind: str, confidence: float, *patterns: str, about_user: bool = True, to_agent: bool = False) -> Form:
    return Form(kind, confidence, _any(*patterns), about_user, to_agent)


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


#: Words before a sentence that only join it to the last one.
_FILLERS: Final = re.compile(
    r"\A(?:(?:and|so|but|also|please|pls|yes|yeah|yep|yup|no|nope|ok|okay|well|hey|hi|oh|ah|um+|hm+|right|great|cool"
    r"|thanks|btw|by the way|plus|actually|man|dude|again|wow|honestly|basically|sure|just|anyway|one more thing"
    r"|first of all|additionally)\b[\s,.!:;…—–-]*+)++",
    re.IGNORECASE,
)
#: What people do or forbid in general.
_HABITS: Final = (
    r"(?:use|commit|push|add|write|put|create|mock|run|deploy|merge|edit|change|delete|rename|refactor|make|guess"
    r"|assume|copy|duplicate|hard-?code|install|import|log|print|format|reformat|rebase|force-push|amend|squash|invent"
    r"|summari[sz]e|explain|apologi[sz]e|mention|include|introduce|leave|modify|touch|bump|upgrade|swallow|ignore"
    r"|disable|suppress|test|review|release|ship|name|store|expose|keep|allow|support|return|avoid|prefer)\b"
)
#: Behind a verb: not a thing that is pointed at, but any thing of its kind.
_ANY: Final = r"(?!(?:the|this|that|these|those|it|its|them|my|your|our|me|us|him|her|any ?more|so|too)\b)"
_SOFT: Final = (
    r"(?:(?:really|much|strongly|generally|usually|always|do|still|also|just|would|personally|definitely) )*+"
)
_KIN: Final = (
    r"(?:wife|husband|partner|girlfriend|boyfriend|fianc[eé]e?|sons?|daughters?|kids?|children|mother|father|mom|mum"
    r"|dad|parents|sisters?|brothers?|grandmother|grandfather|grandma|grandpa|uncle|aunt|cousins?|dogs?|cats?"
    r"|pupp(?:y|ies))"
)
_TRADE: Final = (
    r"(?:engineer|developer|programmer|teacher|nurse|doctor|student|designer|writer|author|artist|musician|lawyer"
    r"|manager|mother|father|mom|mum|dad|parent|woman|veteran|photographer|chef|painter|dancer|actor|actress"
    r"|counsell?or|therapist|scientist|researcher|singer|pilot|freelancer|entrepreneur|accountant|architect|consultant"
    r"|founder)\b"
)
_NUMBER: Final = r"(?:\d{1,2}|two|three|four|five|six|seven|eight|nine|ten)"
#: Behind "I love": a feeling about what was just said.
_REACTION: Final = r"(?:being|getting|having|seeing|hearing|knowing|talking|watching|finding)\b"
#: Behind "always" and "never": a remark, and no rule.
_REMARK: Final = (
    r"(?:mind|again|been|seen|heard|thought|knew|got|had|wanted|the|an?|there|here|know|nice|good|great|fun|happy"
    r"|glad)\b"
)

#: In this order; the first that matches gives the kind.
FORMS: Final = (
    _form("todo", 0.8, r"\A(?:todo|to-do)\b[:,]? ", r"\Aremind me (?:to|about) ", about_user=False, to_agent=True),
    _form(
        "lesson",
        0.8,
        r"\Alessons?(?: learn(?:ed|t))?(?: is| here)?[:,] ",
        r"\A(?:til|note to self)[:,] ",
        r"\A(?:i|we)(?:'ve| have)?(?: just)? (?:learned|learnt)(?: the hard way)? that ",
        about_user=False,
    ),
    _form(
        "decision",
        0.85,
        r"\A(?:the )?(?:final )?decision(?: is)?[:,] ",
        r"\Awe(?:'ve| have)?(?: all| now| finally)? (?:decided|agreed|chose|chosen|opted|settled)"
        r" (?:to|on|that|for|against|not) ",
        r"\A(?:we|i)(?:'re| are|'m| am)(?: now)? going with ",
        r"\Awe(?:'re| are) (?:now )?going to (?:start|switch|move|migrate|stop|drop|stick|replace|use|keep)\b",
        r"\Awe(?:'ll| will)(?: only| just| always| never)? (?:use|go with|stick with|stay with|drop|support|switch to"
        r"|move to|stop using|not use|not support) ",
        r"\Awe (?:do not|don't|no longer) (?:support|use|allow|ship|commit|mock|deploy|store) ",
        r"\Alet'?s (?:stick with|go with|standardi[sz]e on|settle on|always|never) ",
        r"\Alet'?s not \w+ .*\b(?:if|when|unless|until|without)\b",
        about_user=False,
        to_agent=True,
    ),
    _form("decision", 0.7, r"\Ai(?:'ve| have)?(?: just| finally)? decided (?:to|on|that|against|not) "),
    _form(
        "preference",
        0.9,
        r"\A(?:(?:you|we) (?:should|must|need to|have to|are to) )?(?:always|never|don't ever|do not ever) "
        rf"(?!{_REMARK})",
        r"\A(?!it\b|this\b)[^,;.:]{2,40} (?:should|must) (?:always|never) \w",
        r"\A(?:from now on|going forward|from here on|as a (?:general )?rule|in (?:the )?future)\b,? ",
        rf"\A(?:do not|don'?t) {_HABITS}.*\b(?:without|unless|ever)\b",
        rf"\A(?:do not|don'?t) {_HABITS}.*\bin (?:tests|production|commits|comments|docs|code)\b",
        rf"\A(?:do not|don'?t) {_HABITS} {_ANY}\w",
        rf"\A(?:stop|avoid) {_ANY}\w+ing {_ANY}\w",
        r"\A(?:always )?(?:ask|check with|confirm with) (?:me|us)\b.*\b(?:before|first)\b",
        r"\Ayou (?:are to|should|must|have to|need to) (?:ask|check with|confirm with) (?:me|us)\b",
        r"\Aremember to (?:always |never )?\w+ ",
        # "I'll do the testing" is about this afternoon.
        r"\Ai(?:'ll| will) (?:always|never) \w",
        r"\Aleave (?:all )?(?:the )?[\w ]{3,40} to me\b",
        r"\b(?:like|as) we do (?:everywhere|elsewhere|in (?:all|every))\b",
        to_agent=True,
    ),
    _form(
        "preference",
        0.85,
        rf"\A(?:i|we)(?:'d)? {_SOFT}(?:prefer|rather (?:have|use|not|keep|see)) (?!not to say)",
        r"\A(?:i|we) (?:do not|don't|really don't) like \w+ing ",
        rf"\A(?:i|we) {_SOFT}(?:hate|dislike|can't stand|cannot stand) {_ANY}(?!how\b|when\b|to (?:say|see|hear)\b)\w",
        r"\Ai(?:'m| am) (?:not|no) (?:a )?(?:big |huge )?fan of ",
        rf"\Amy favou?rite (?:\w+ ){{1,3}}?(?:is|are) (?:probably |definitely |still )?{_ANY}\w",
        rf"\Ai (?:always|never|usually|only) {_HABITS} ",
    ),
    _form(
        "preference",
        0.8,
        rf"\Awe (?:always|never|usually|normally|typically|only) {_HABITS}",
        r"\Awe (?:use|write|put|keep) [^,;]{2,60},? (?:instead of|rather than|not|and not|never) \S",
        rf"\Ause [^,;]{{2,60}},? (?:instead of|rather than|not|never) {_ANY}\S",
        r"\b(?:our|my|the team's) (?:convention|policy|rule|standard|practice|guideline|preference)s? (?:is|are) ",
        r"\b(?:is|are) (?:our|the(?: general(?:ly)?| usual)?) preferred (?:approach|pattern|way|style|tool|option)\b",
        to_agent=True,
    ),
    _form(
        "decision",
        0.7,
        r"\bwe (?:really )?want (?:to \w+|all|every|only|no) ",
        # A file that is not wanted goes, and then nobody needs the wish any more.
        rf"\A(?:i|we) (?:really )?(?:do not|don't) want {_ANY}(?!to\b)(?!\S*\s?\S*[/.]\w)\w",
        r"\b(?:order|default|format|naming) should (?:always )?be\b",
        r"\b(?:is|are) not a goal\b",
        about_user=False,
        to_agent=True,
    ),
    _form(
        "fact",
        0.9,
        r"\A(?:remember|keep in mind|bear in mind)(?: that |[:,] )",
        r"\A(?:for the record|note for (?:later|the future|future sessions))[:,] ",
        about_user=False,
        to_agent=True,
    ),
    _form(
        "fact",
        0.8,
        r"\Amy name(?:'s| is) \w",
        r"\Ai(?:'m| am) (?:\w+ )?(?:allergic to|based in|originally from)\b",
        r"\Ai(?:'m| am) (?:an? )?(?:colou?r-?blind|vegan|vegetarian|left-handed|diabetic)\b",
        r"\Ai (?:live|grew up|was born|was raised) (?:in|on|near) ",
        r"\Ai (?:currently |still )?work (?:as an?|at|for) ",
        rf"\Ai(?:'m| am) an? (?:\w+ ){{0,2}}?{_TRADE}",
        rf"\Ai(?:'ve got| have) {_NUMBER} (?:\w+ )?{_KIN}\b",
        r"\A(?:i(?:'ve got| have| got| adopted| own)|my) .{1,60}\b(?:named|called) [^\W\d_]",
        rf"\Amy (?:\w+ )?{_KIN}(?:, \w+,| \w+)? (?:(?:is|are|was) (?:an?|my|called|named)"
        rf"|(?:has|have) (?:an?|{_NUMBER}|been)|lives?|works?|died|passed away)\b",
        r"\Ai (?:just |recently |finally |also )*+(?:lost my job|quit my job|left my job|got (?:married|engaged"
        r"|divorced|promoted)|graduated (?:from|with)|moved (?:to|from)"
        r"|bought (?:an?|my|our) (?:\w+ )?(?:house|car|home|apartment|flat|boat)"
        r"|adopted an? |opened (?:my|an?) |became an? |enrolled in |joined an? )",
        r"\Ai used to (?:be an?|have|play|live|work|own|compete|teach|study|go) ",
        r"\Ai started \w+ing .{2,80}\b(?:years?|months?) ago\b",
        r"\Amy (?:\w+ )?(?:goal|dream) is to ",
        r"\Ai(?:'ve| have) been \w+ing .{2,80}\b(?:for|since) (?:\d|over |almost |about |nearly "
        r"|the (?:past|last) |many |several |a (?:few|couple) |\w+ (?:years|months)\b|i was )",
    ),
    _form(
        "preference",
        0.7,
        r"\Ai(?:'ve| have) always (?:loved|liked|wanted|hated|enjoyed|dreamed of|dreamt of|preferred"
        r"|been (?:passionate|interested|fascinated|into|a fan)|had an? (?:\w+ )?(?:love|passion|respect|thing))\b",
        rf"\Ai {_SOFT}(?:love|enjoy|adore) (?!{_REACTION})\w+ing (?!(?:it|this|that|these|those|them|you|the)\b)\w",
        rf"\Ai(?:'m| am) {_SOFT}(?:into|passionate about|a (?:big |huge |real )?fan of|obsessed with) {_ANY}\w",
    ),
)

#: Words before a statement that only say what to do with it, or what kind it is.
_LEADS: Final = re.compile(
    r"\A(?:(?:please )?(?:remember|keep in mind|bear in mind|note)(?: that |[:,] +)"
    r"|(?:for the record|note for (?:later|the future|future sessions)|note to self)[:,] +"
    r"|(?:todo|to-do)\b[:,]? +|remind me to |(?:til|lessons?(?: learn(?:ed|t))?|(?:final )?decision): +)(?=\S)",
    re.IGNORECASE,
)
#: What makes a sentence a supposition, a question, a hope or a matter of this moment.
_NOT_LASTING: Final = _any(
    r"[?？][\s'\"”)\]]*\Z",
    r"\A(?:if|imagine|suppose|maybe|perhaps|i (?:think|guess|hope|wish|wonder|suppose|might|may)|what if)\b",
    r"\b(?:would have|if i|as if|for now|right now|just now|this time|at the moment|for the moment|not yet|yet|today"
    r"|tonight|tomorrow|yesterday|this (?:week|month|morning|weekend|evening)|later|soon"
    r"|(?:last|next) (?:week|weekend|month|night|\w+day))\b",
)
#: What a sentence points at outside of itself.
_POINTS_OUT: Final = _any(
    r"\b(?:this|these|those|here|the (?:latter|former|above|below|following|other|others|same|previous|rest)"
    r"|(?:the|that|which|other|another|first|second|third|last|next|new|old|each|right|wrong) ones?|likewise"
    r"|instead\W*\Z|above|below|former|such a|like so|as (?:shown|described|follows))\b",
    r"\b(?:lines?|items?|steps?|issues?|points?|options?|phases?|observations?|numbers?|no\.|pr|#) ?#?\d",
    r"#\d|\b(?:option|phase|step|plan) [a-d]\b",
    r"\Athere\b|\bthere\W*\Z|\b(?:over|in|up|down|out|from|go|went|been|back|live|work) there\b",
    r"[:,]\s*\Z|\.\.\.\s*\Z|…\s*\Z",
)
#: `that` at the beginning of a clause or behind a preposition or verb points at something. Behind a noun it does not.
_THAT: Final = _any(
    r"(?:\A|[,;:—–-] ?|\b(?:and|but|so|or|because|if|when|for|of|to|with|like|do|does|did|than|in|on|at|from|by|about"
    r"|is|was|are|not|all|want|wants|need|love|hate|use|using|doing|done|fix|have|had|got|into|after|before) )that\b"
    r"(?! (?:i|we|you|they|he|she|it|the|an?|my|our|your|people|there)\b)",
    r"\bthat(?:'s|\W*\Z| (?:one|way|kind|sort|stuff|thing)\b)",
)
_IT: Final = re.compile(r"\b(?:it|its|it's|itself)\b", re.IGNORECASE)
_HE: Final = re.compile(r"\b(?:he|him|his|himself|she|her|hers|herself)\b", re.IGNORECASE)
_THEY: Final = re.compile(r"\b(?:they|them|their|theirs|themselves)\b", re.IGNORECASE)
_PERSONS: Final = re.compile(
    rf"\b{_KIN}\b|\b(?:friend|boss|coach|teacher|person|man|woman|guy|colleague)\b", re.IGNORECASE
)
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_FEWEST_WORDS: Final = 4
#: A longer sentence is seldom one wish.
_LONGEST: Final = 320
#: Words before `it` in the same sentence, among which its noun is.
_WORDS_BEFORE_IT: Final = 4


def core(sentence: str) -> str:
    """The sentence without the words that only join it to the last one, and without Markdown around it."""
    sentence = sentence.strip().strip("*_ ")
    filler = _FILLERS.match(sentence)
    return sentence[filler.end() :] if filler else sentence


def bare(statement: str) -> str:
    """A statement without a lead such as `remember:` or `TODO:`, which its kind already says."""
    lead = _LEADS.match(statement)
    if lead is None:
        return statement
    rest = statement[lead.end() :]
    word = rest.split(maxsplit=1)[0].rstrip(",;:")
    return rest[:1].upper() + rest[1:] if word.isalpha() and word.islower() else rest


def form_of(sentence: str, *, of_two_people: bool = False) -> Form | None:
    """The form of a sentence that states something lasting and can be understood alone; None for any other."""
    plain = sentence.replace("’", "'").replace("`", "").strip()
    if len(plain) > _LONGEST or len(_WORD.findall(plain)) < _FEWEST_WORDS:
        return None
    if _NOT_LASTING.search(plain) or not stands_alone(plain):
        return None
    if of_two_people and re.search(r"\byour?\b", plain, re.IGNORECASE):
        return None
    found = next((each for each in FORMS if each.pattern.search(plain)), None)
    return None if found is None or (found.to_agent and of_two_people) else found


def stands_alone(sentence: str) -> bool:
    """Whether nothing in a sentence points at something outside of it."""
    if _POINTS_OUT.search(sentence) or _THAT.search(sentence):
        return False
    it = _IT.search(sentence)
    if it and len(_WORD.findall(sentence[: it.start()])) < _WORDS_BEFORE_IT:
        return False
    he = _HE.search(sentence)
    if he and not (_PERSONS.search(sentence[: he.start()]) or _has_name(sentence[: he.start()])):
        return False
    they = _THEY.search(sentence)
    return they is None or any(
        word.endswith("s") and len(word) > 3 for word in sentence[: they.start()].lower().split()
    )


def _has_name(text: str) -> bool:
    words = text.split()[1:]
    return any(word[:1].isupper() and word not in ("I", "I'm", "I've", "I'll", "I'd") for word in words)
