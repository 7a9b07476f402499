// Package browsertest drives a headless Chromium in tests of pages: a tab is
// opened, looked at and closed with the test. The program is Debian's package
// chromium, or what MUSTER_TEST_CHROMIUM names; without one a test fails and
// says so. Only tests that are built with the tag browser use it.
package browsertest
