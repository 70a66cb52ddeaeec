// The addresses of pages, as `request.link` makes them.

// A browser takes `.` and `..` for folders, also when they are encoded. So they get a mark.
export const pathPart = (text) => (/^~*\.{1,2}$/.test(text) ? `~${text}` : encodeURIComponent(text));

export const pageAddress = (...parts) => `/w/${[document.body.dataset.workspace, ...parts].map((each) => pathPart(String(each))).join("/")}`;
