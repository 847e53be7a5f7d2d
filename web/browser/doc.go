// Package browser holds the tests that look at the pages in a real Chromium, over a real server and a real Postgres.
package browser
