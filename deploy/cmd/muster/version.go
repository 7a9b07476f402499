package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"muster/platform/engine"
)

// release is the version in the file VERSION. A build can set another one: -ldflags "-X main.release=1.2.3".
var release = "0.1.0" //nolint:gochecknoglobals // the linker sets variables only

// revision is the commit of the build, if set; else the go command's version control information is used.
var revision string //nolint:gochecknoglobals // the linker sets variables only

// version returns the release.
func version() string { return release }

// commit returns the commit that the binary was built from, with "+changes" if files were modified.
// It returns "unknown" if the build had no version control.
func commit() string {
	if revision != "" {
		return revision
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	found, modified := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			found = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "+changes"
		}
	}
	return found + modified
}

// printVersion writes the versions of the program, Go and the engine.
func printVersion(w io.Writer) error {
	library := engine.LibraryVersion()
	if library == "" {
		library = "none for this platform"
	}
	_, err := fmt.Fprintf(w, "muster %s\ncommit %s\ngo     %s %s/%s\nengine libchdb %s\n",
		version(), commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH, library)
	return err
}

func (c *command) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the program, Go and the engine",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return printVersion(cmd.OutOrStdout()) },
	}
}
