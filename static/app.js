// The only module that pages load. Each part looks for its own place on the page and does nothing where there is none.
import { startKeys } from "./keys.js";
import { startTheme } from "./toggle.js";
import { startLaunch } from "./launch.js";
import { startRun } from "./run.js";

startTheme();
startKeys();
startLaunch();
startRun();
