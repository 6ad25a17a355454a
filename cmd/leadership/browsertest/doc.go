// Package browsertest tests the page of leadership serve in Chromium. It is a module of its own so that the library
// does not require a client of the browser, and exports nothing.
package browsertest
