"""A browser as far as the pages need one: cookies with SameSite=Strict, forms, meta refresh, headers about origins."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import httpx


class Form(NamedTuple):
    action: str
    fields: dict[str, str]


class Page(HTMLParser):
    """What a person and a browser see of an answer."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__()
        self.response = response
        self.status = response.status_code
        self.url = str(response.url)
        self.forms: list[Form] = []
        self.links: list[str] = []
        self.refresh: str | None = None
        self.elements: list[str] = []
        self.attributes: list[str] = []
        self.choices: dict[str, list[str]] = {}
        self._words: list[str] = []
        self._select: str | None = None
        if "html" in response.headers.get("content-type", ""):
            self.feed(response.text)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._words).split())

    def handle_data(self, data: str) -> None:
        self._words.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.elements.append(tag)
        self.attributes += [name for name, _ in attrs]
        name, value = given.get("name") or "", given.get("value") or ""
        if tag == "form":
            self.forms.append(Form(given.get("action") or "", {}))
        elif tag == "a":
            self.links.append(given.get("href") or "")
        elif tag == "meta" and given.get("http-equiv") == "refresh":
            self.refresh = (given.get("content") or "").partition("url=")[2]
        elif tag == "select":
            self._select = name
        elif tag == "option" and self._select:
            self.choices.setdefault(self._select, []).append(value)
            if "selected" in given:
                self.forms[-1].fields[self._select] = value
        elif tag == "input" and given.get("type") == "radio":
            self.choices.setdefault(name, []).append(value)
            if "checked" in given:
                self.forms[-1].fields[name] = value
        elif tag == "input" and self.forms:
            self.forms[-1].fields[name] = value


class Browser:
    def __init__(self, url: str, **headers: str) -> None:
        self.url = url
        accepted = {"accept": "text/html,*/*;q=0.8"}
        # Reading the certificates of the system takes 17 ms, and loopback needs none.
        self._http = httpx.Client(trust_env=False, verify=False, timeout=30, headers={**accepted, **headers})

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    @property
    def cookies(self) -> dict[str, str]:
        return dict(self._http.cookies)

    def visit(self, address: str, *, site: str = "none") -> Page:
        """Go to an address: typed (`none`), or led there by a page of this or of another site."""
        return self._go("GET", urljoin(self.url, address), site)

    def follow_refresh(self, page: Page) -> Page:
        assert page.refresh is not None
        same = _origin(page.refresh or "") in ("", _origin(page.url))
        return self._go("GET", urljoin(page.url, page.refresh), "same-origin" if same else "cross-site")

    def submit(self, page: Page, *, origin: str | None = None, **values: str | None) -> Page:
        """Send the form of a page, with these values. Another `origin` means that a page of that site sends it."""
        form = page.forms[0]
        fields = {**form.fields, **values}
        data = {name: value for name, value in fields.items() if value is not None}
        return self.post(urljoin(page.url, form.action), data, origin=origin or _origin(page.url))

    def post(self, address: str, data: dict[str, str], *, origin: str | None = None) -> Page:
        target = urljoin(self.url, address)
        sender = origin or self.url
        site = "same-origin" if sender == _origin(target) else "cross-site"
        return self._go("POST", target, site, data=data, headers={"origin": sender})

    def _go(self, method: str, address: str, site: str, **more: Any) -> Page:
        headers = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", **more.pop("headers", {})}
        for _ in range(10):
            request = self._http.build_request(method, address, headers=headers, **more)
            if site == "cross-site":
                request.headers.pop("cookie", None)
            response = self._http.send(request, follow_redirects=False)
            if not response.is_redirect:
                return Page(response)
            address, method = urljoin(address, response.headers["location"]), "GET"
            more.pop("data", None)
            headers.pop("origin", None)
        raise AssertionError("the browser is sent around in circles")


def _origin(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme else ""
