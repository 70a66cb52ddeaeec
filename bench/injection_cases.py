"""Prompts for `injection.py` that are not taken from the coding sessions."""

from __future__ import annotations

from typing import NamedTuple

#: Nothing in the coding sessions can help with these: other projects, other languages, other parts of life.
ELSEWHERE = (
    "The checkout page in our Rails shop shows the wrong VAT for customers in Norway, can you find out why?",
    "Add a dark mode toggle to the settings screen of the React Native app",
    "Our Kubernetes ingress returns 502 for websockets after the nginx upgrade, what changed?",
    "Write a SQL query that gives me monthly churn by plan for the last year",
    "Port this matplotlib heatmap to plotly and keep the colour scale",
    "The Unity camera jitters when the player jumps on a moving platform",
    "Refactor the invoice PDF generator so that the logo can be replaced per tenant",
    "Why does the Terraform plan want to recreate the RDS instance when I only change the tags?",
    "Give the pandas loader a chunksize so that the 40 GB CSV fits into memory",
    "My Arduino sketch reads the DHT22 sensor as NaN every third time",
    "Add pagination to the GraphQL orders resolver, with cursors",
    "The Swift widget does not refresh its timeline after midnight",
    "Convert the jQuery datepicker in the booking form to a native date input",
    "Set up pre-commit with black and isort for the Django repository",
    "How do I make the Postgres materialised view refresh without blocking readers?",
    "Draft an email to the landlord about the broken dishwasher",
    "Plan a four day trip to Lisbon with two small children in March",
    "Give me a vegetarian lasagne recipe for eight people",
    "Summarise the plot of Middlemarch in five sentences",
    "Explain the difference between a Roth IRA and a traditional one",
    "What is a good training plan for a first half marathon in twelve weeks?",
    "Help me rewrite the cover letter for the museum job so that it sounds less stiff",
    "The Elixir GenServer mailbox grows until the node dies, help me add back pressure",
    "Speed up the Rust tokenizer, the profile shows most time in HashMap lookups",
    "Our Flask login throws CSRF token missing after moving behind Cloudflare",
    "Animate the SVG pie chart slices when hovering",
    "Write Cypress tests for the coupon code field in the cart",
    "Why is the Keras validation loss going up while accuracy improves?",
    "Change the Ansible playbook so that it installs Grafana from the vendor's package",
    "Make the Bluetooth pairing dialog on the Android tablet remember the last printer",
    "The Spark job spills to disk during the join with the customers dimension",
    "Translate the onboarding emails to Portuguese, formal tone",
    "Which houseplants survive a dark bathroom?",
    "Build a Figma-like multiplayer cursor with Yjs for the whiteboard",
    "Fix the off by one error in the Tetris rotation for the I piece",
    "Our Salesforce sync drops contacts whose phone number has an extension",
    "Let the barcode scanner page beep on success and vibrate on failure",
    "The Haskell parser is ambiguous for nested lambdas, suggest a grammar",
    "Deduplicate the photo library by perceptual hash and keep the larger file",
    "Add Stripe webhooks for failed payments and retry with backoff",
    "Calculate how much paint I need for a room of four by five metres",
    "The LaTeX bibliography sorts umlauts after z, how do I fix that?",
    "Generate OpenAPI clients for the warehouse service in Kotlin",
    "Compress the drone footage to H.265 without losing the GPS metadata",
    "Our Solr index returns stale prices after the nightly import",
    "Why does the Excel macro fail on the Mac with error 1004?",
    "Write a limerick about a lighthouse keeper who hates seagulls",
    "Migrate the Jenkins pipeline of the billing service to Buildkite",
    "The Godot shader for water looks fine on desktop and black on mobile",
    "Add an undo stack to the pixel art editor",
)

#: These name nothing that could be remembered.
WITHOUT_CONTENT = (
    "continue",
    "yes",
    "yes please",
    "ok",
    "go ahead",
    "proceed",
    "do it",
    "looks good",
    "run the tests",
    "fix it",
    "try again",
    "thanks!",
    "no",
    "perfect, thank you",
    "commit this",
    "commit and push",
    "what do you think?",
    "why?",
    "explain",
    "address 3 and 8",
    "fix 4",
    "let's do 12 for 17",
    "ok, plan out B",
    "undo that",
    "and now?",
    "sounds good, go on",
    "show me",
    "next",
    "1",
    "stop",
)


class Case(NamedTuple):
    """A hand-made case: what was said or remembered, where, and whether a prompt in project `app` must get it."""

    name: str
    #: "memory:KIND" or a role, then the project, then the text.
    stored: tuple[tuple[str, str | None, str], ...]
    prompt: str
    #: A part of each line that must be there, and parts that must not.
    wanted: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()


CASES = (
    Case(
        "a turn of another project stays out",
        (("user", "website", "The checkout button must stay green, marketing insists on it"),),
        "What colour should the checkout button have?",
        unwanted=("green",),
    ),
    Case(
        "the same turn of this project helps",
        (("user", "app", "The checkout button must stay green, marketing insists on it"),),
        "What colour should the checkout button have?",
        wanted=("green",),
    ),
    Case(
        "a preference of another project may cross",
        (("memory:preference", "website", "Commit messages are written in the imperative, without a full stop"),),
        "Write the commit messages for these changes",
        wanted=("imperative",),
    ),
    Case(
        "a general decision helps",
        (("memory:decision", None, "Dates in file names are always UTC, never local time"),),
        "Which time zone do we use for the dates in file names?",
        wanted=("always UTC",),
    ),
    Case(
        "a lesson about the very function helps",
        (("memory:lesson", "app", "parse_invoice fails on empty totals; check for None before rounding"),),
        "parse_invoice throws an error again, please fix it",
        wanted=("empty totals",),
    ),
    Case(
        "narration does not come back",
        (("assistant", "app", "Let me check how parse_invoice handles the rounding of totals."),),
        "How does parse_invoice round totals?",
        unwanted=("Let me check",),
    ),
    Case(
        "pasted output does not come back",
        (
            (
                "user",
                "app",
                'FAIL tests/test_invoice.py::test_rounding\n  File "invoice.py", line 12, in parse_invoice\n'
                "E   TypeError: type NoneType doesn't define __round__ method\n=== 1 failed, 212 passed in 3.11s ===",
            ),
        ),
        "Why does test_rounding fail in parse_invoice?",
        unwanted=("passed in",),
    ),
    Case(
        "a question comes with its answer",
        (
            ("user", "app", "Why do we retry the ledger upload three times?"),
            (
                "assistant",
                "app",
                "The ledger upload is retried three times because the bank's gateway drops the first call.",
            ),
        ),
        "Can we lower the number of retries of the ledger upload?",
        wanted=("gateway drops",),
    ),
    Case(
        "numbers of another review stay out",
        (("user", "app", "address 3 and 8"), ("user", "app", "Address 7, skip 9")),
        "address 3, 7 and 8",
        unwanted=("address", "Address"),
    ),
    Case(
        "a single common word is not enough",
        (("user", "app", "Please update the version of the docker image to 1.8"),),
        "Update the title of the settings page",
        unwanted=("docker",),
    ),
)
