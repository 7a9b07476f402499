package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is the version set at build time with -ldflags "-X main.release=1.2.3".
var release string //nolint:gochecknoglobals // the linker sets nothing else

// version returns the release, else the module version of the binary, else the commit of the working tree.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, modified := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "+changes"
		}
	}
	if revision == "" {
		return info.Main.Version
	}
	return revision + modified
}

func (c *command) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "muster %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS,
				runtime.GOARCH)
			return err
		},
	}
}
