// Package browsertest drives a headless Chromium in tests of web pages. A tab is closed at
// the end of its test. The browser is Debian's package chromium, or the path in
// MUSTER_TEST_CHROMIUM; without one, a test fails with that hint. Only tests with the build
// tag browser use it.
package browsertest
