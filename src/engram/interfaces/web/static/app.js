// Everything that the pages do in the browser. Each module looks for its own attributes, so a page names what it wants
// (data-call, data-live, data-search, …) and needs no script of its own.
import { startForms } from "./forms.js";
import { startKeys } from "./keys.js";
import { startLater } from "./later.js";
import { startLive } from "./live.js";
import { startMiddle } from "./middle.js";
import { startQueues } from "./queues.js";
import { startSearch } from "./typing.js";
import { startTimes } from "./times.js";
import { startTheme } from "./switches.js";
import { startWanted } from "./wanted.js";

startForms();
startKeys();
startLater();
startLive();
startMiddle();
startQueues();
startSearch();
startTimes();
startTheme();
startWanted();
