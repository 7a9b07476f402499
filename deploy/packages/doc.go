// Command packages builds what people install: a tarball, a .deb and an .rpm for each platform that has an embedded
// engine, a tarball with the engine inside, and SHA256SUMS. `make dist` runs it.
//
// It is a module of its own: the programs that muster runs do not depend on a packager.
package main
