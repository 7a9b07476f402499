// Command packages builds the release files: a tarball, a .deb and an .rpm for each platform that has an embedded
// engine, a tarball with the engine inside, the wheel of the Python client, and SHA256SUMS. `make dist` runs it.
//
// It is a separate module, so that the programs do not depend on a packager.
package main
