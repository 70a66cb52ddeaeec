"""Pairs of a question and a memory that answers it without sharing a content word: only vectors can find them.

A person sees at once that the memory answers the question. Half of the pairs are from the work of a software engineer,
half from everyday life. The benchmark checks `PAIRS`: no term of the analyser may occur in both halves of a pair.
"""

from __future__ import annotations

from typing import NamedTuple


class Pair(NamedTuple):
    question: str
    memory: str


_AT_WORK = """
Why did the website crash? | The outage came from an expired TLS certificate on the load balancer
Which database engine are we using? | Customer records live in Postgres 16
How do we publish a new version? | Releases are cut by tagging main; the pipeline uploads the wheel
Who has to sign off on a pull request? | Every merge needs approval from two reviewers
What makes the test suite so slow? | The integration checks spend most of their minutes starting containers
Where are the secrets stored? | Passwords and API keys sit in the Vault cluster
Which programming language was chosen for the backend? | The server side will be written in Rust
How often are backups taken? | A snapshot of the disk gets copied off-site each night
What is the deadline for the project? | The client expects delivery by the end of March
Why did the memory usage keep growing? | We leaked listeners: every reconnect allocated another handler
Which tool formats our source files? | Ruff takes care of code style before anything is committed
Who gets paged during the night? | Alerts after midnight wake the engineer on call
What caused the duplicated payments? | Retrying without an idempotency token charged cards twice
How can I reproduce the failure? | To trigger the bug, start two workers and kill one halfway
Where do application errors get reported? | Exceptions and stack traces are collected in Sentry
Which cloud provider hosts us? | Everything runs on AWS in Frankfurt
What did the customer complain about? | A buyer was unhappy that exporting to Excel loses the accents
Why was the migration rolled back? | We reverted the schema change because it locked the orders table for minutes
What is the naming convention for branches? | Git topics begin with the ticket number followed by a short slug
Which meetings can I skip? | Attendance at the Thursday sync is optional for developers
How should dates be serialised? | Timestamps go over the wire as ISO 8601 in UTC
What laptop did the company give me? | My employer handed out a ThinkPad with 64 GB of RAM
How do users log in? | Authentication happens through single sign-on with Okta
Why is the homepage sluggish on phones? | Mobile visitors wait since the hero picture weighs six megabytes
Which library draws the charts? | Graphs in the dashboard are rendered by D3
How long do we keep the logs? | Retention of trace output is ninety days, then it is purged
Who maintains the billing service? | Invoicing belongs to the payments squad in Lisbon
What should newcomers read first? | New hires begin with the architecture handbook
What protocol do the microservices speak? | Internal components talk gRPC to each other
Which vulnerability was found by the audit? | The security review discovered an SQL injection in the search form
How do I restart the worker safely? | Drain the queue, then send SIGTERM and wait until the consumer exits
Why do we avoid global variables? | Module-level state is banned because it made concurrent requests interfere
What is the salary range for the opening? | The vacancy pays between 70 and 85 thousand a year
Which operating system runs in production? | Live machines boot Debian 12
How large may an upload be? | Attachments are limited to 25 MB per file
What broke the build? | Compilation stopped because somebody deleted a header
How do we measure whether customers are satisfied? | Happiness is tracked with a quarterly NPS survey
Which colour scheme do I prefer in my editor? | VS Code should use the dark Solarized theme
What was decided about remote work? | The updated policy lets staff do their jobs from home three days weekly
Who found the race condition? | The intern spotted that two threads wrote the counter simultaneously
How do we roll out risky features? | Dangerous functionality hides behind flags and reaches few accounts initially
Why was the contractor let go? | The freelancer's agreement ended early as the budget had dried up
What is our uptime promise? | The SLA guarantees 99.9 % availability
Which shell do I use? | My terminal is configured for fish
Where can I find the design mockups? | Figma holds the wireframes and drafts of every screen
What did the performance profile reveal? | Flame graphs showed half the CPU going into JSON parsing
How are translations handled? | Localised strings come from Crowdin
Why did the nightly job not run? | Cron was disabled after the timezone switch, so the batch never started
What font does the brand require? | Corporate typography is Inter
Which licence covers our code? | The repository is open source under the terms of Apache 2.0
"""

_AT_HOME = """
What food makes me ill? | I am allergic to peanuts and shellfish
When is our wedding anniversary? | We got married on 14 June
Which vehicle does my sister own? | The red Toyota belongs to my elder sibling
Where do my parents live? | Mum and Dad moved to a cottage near Porto
What pet do we have? | Our tabby kitten is called Biscuit
Which doctor should I call about my teeth? | The dentist on Mill Lane fixed the last cavity
What is my shoe size? | I take a 43 in sneakers
How do I like my coffee? | Espresso, black, without sugar
What instrument am I learning? | Piano lessons take place on Monday evenings
What did we name the baby? | Our newborn daughter is Ida
Where did we spend the honeymoon? | As newlyweds we flew to the Azores
Which film made me cry? | Watching Coco left me in tears
How much do we pay for the apartment? | Rent is 1,450 euros monthly
What sport do I play? | I joined the local badminton club
When does the garbage get collected? | Bins are emptied on Tuesdays at dawn
Which wine went well with the fish? | A dry Riesling suited the grilled trout
What present should I buy for my brother? | My sibling would love a telescope for Christmas
Why can't I sleep? | Insomnia keeps me awake because of the noisy neighbours
Where are the spare keys? | An extra set for the door hangs behind the boiler
What languages do the kids speak? | The children grew up with Catalan and English
Which medicine do I take each morning? | After breakfast I swallow a thyroid tablet
What am I afraid of? | Heights terrify me
What is growing in the garden? | We planted tomatoes, basil and courgettes behind the house
How did my grandfather earn his living? | Grandpa worked as a watchmaker
What novel am I reading? | The book on my nightstand is Middlemarch
Which airline lost my luggage? | The suitcase vanished on a flight with KLM
When do I have to renew my passport? | My travel document expires in October
Who looks after the dog while we are away? | The puppy stays with the neighbour during holidays
What should I cook for the vegetarian guests? | Visitors who eat no meat enjoyed the mushroom risotto
Where did I study? | I graduated from the university of Leeds
How far do I run every week? | My jogging adds up to about thirty kilometres
What is wrong with the car? | The brakes squeal and the mechanic wants to replace the discs
Which insurance covers the flat? | The household policy is with Allianz
What do I want to do when I retire? | Once I stop working, my dream is to sail around Greece
Where do I get my hair cut? | The barber beside the station trims it monthly
Why did we cancel the trip? | The vacation fell through since the volcano closed the airport
What kind of music do I enjoy? | Jazz from the fifties is what I listen to
What is the wifi password at the cabin? | To get online in the mountain hut, type larch-otter-9
How tall is my son? | The boy measures 132 centimetres
What happened at the party? | The birthday celebration ended when somebody dropped the cake into the pool
Which school does my daughter attend? | Our girl is a pupil at Saint Anne's primary
What broke in the kitchen? | The dishwasher leaked and ruined the floorboards
How do I calm down when I am stressed? | Breathing exercises relax me if pressure builds up
Where shall we meet for lunch? | Let us eat at noon in the Thai place by the canal
What hobby did my wife pick up? | My spouse has started pottery
Which charity do we support? | Each December we donate to the food bank
What did the weather do to our picnic? | Rain soaked the sandwiches in the park
How do I get to the office fastest? | Commuting by bicycle along the river is quickest
Which shows are we following on television? | Tonight we continue the series about Danish politicians
What did the vet say about the rabbit? | The animal clinic found that the bunny needs more hay
"""

PAIRS = [Pair(*map(str.strip, line.split("|"))) for line in (_AT_WORK + _AT_HOME).splitlines() if line]
