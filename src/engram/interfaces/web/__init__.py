"""The dashboard: pages for a person with a browser, at `/w/WORKSPACE/…` of `engram serve`.

How a page is made:

1. `routes` lists the pages. Each is a function that gets a `request.PageRequest` (the workspace, what the person may
   do, the query) and returns a `frame.Page`: its question, and HTML.
2. It reads through the same facade as every other interface, in a thread of the server.
3. `frame` puts the navigation around it. `parts` has the pieces that pages are made of, `markdown` shows stored
   Markdown, `charts` draws.

Pages only read. What a person does on a page goes to the HTTP API, as every other program's calls do: a form names
the operation (`parts.form`), and `static/forms.js` sends it. So nothing can be done here that cannot be scripted.

Stored text becomes HTML only in `http.html`, which escapes it, and in `markdown`, which makes only harmless elements.
The pages have no inline script and no inline style, as the server's content policy demands.

`static/live.js` follows the event stream. When something changes that a part of the page shows (`data-live`), it loads
the page again and replaces these parts; for the counts in the navigation it loads only that. `static/later.js` loads
what takes long (`data-load`) after the page is shown.
"""
