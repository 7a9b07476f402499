package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

const (
	configDir  = "/etc/muster"
	programDir = "/usr/bin"
	docDir     = "/usr/share/doc/muster"
	unitDir    = "/lib/systemd/system"
)

// packaged returns the path of a file of deploy/packages/files.
func (r *release) packaged(name string) string {
	return filepath.Join(r.root, "deploy", "packages", "files", name)
}

// writePackage writes a .deb or .rpm with the program and returns its name.
func (r *release) writePackage(format, arch, program string) (_ string, err error) {
	info, err := r.packageInfo(format, arch, program)
	if err != nil {
		return "", err
	}
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return "", fmt.Errorf("%s: %w", format, err)
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return "", err
	}
	name := packager.ConventionalFileName(info)
	out, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := packager.Package(info, out); err != nil {
		return "", fmt.Errorf("%s: %w", format, err)
	}
	return name, nil
}

func (r *release) packageInfo(format, arch, program string) (*nfpm.Info, error) {
	documents, err := r.documents()
	if err != nil {
		return nil, err
	}
	add := func(source, destination, kind string, mode os.FileMode) *files.Content {
		return &files.Content{
			Source: source, Destination: destination, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.mtime},
		}
	}
	contents := files.Contents{
		add(program, path.Join(programDir, "muster"), files.TypeFile, 0o755),
		add(r.packaged("muster.service"), path.Join(unitDir, "muster.service"), files.TypeFile, 0o644),
		add(r.packaged("muster.yaml"), path.Join(configDir, "muster.yaml"), files.TypeConfigNoReplace, 0o644),
		add(r.packaged("muster.env"), path.Join(configDir, "muster.env"), files.TypeConfigNoReplace, 0o640),
	}
	for _, name := range documents {
		destination := path.Join(docDir, name)
		if name == "LICENSE" && format == "deb" {
			destination = path.Join(docDir, "copyright")
		}
		contents = append(contents, add(filepath.Join(r.root, name), destination, files.TypeFile, 0o644))
	}
	depends, recommends := []string{"libc6", "passwd"}, []string{"ca-certificates", "git"}
	if format == "rpm" {
		depends, recommends = []string{"glibc", "shadow-utils"}, []string{"ca-certificates", "git-core"}
	}
	return &nfpm.Info{
		Name: "muster", Arch: arch, Platform: "linux", Version: r.version, MTime: r.mtime,
		Section: "database", Priority: "optional", License: "Apache-2.0",
		Maintainer: "The authors of muster <muster@localhost>",
		Description: "Person and company enrichment from your own records\n" +
			"muster imports records of people and companies through Kafka into ClickHouse read models\n" +
			"and serves enrichment, search and SQL from them, in one process or as services.",
		DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Depends: depends, Recommends: recommends, Contents: contents,
			Scripts: nfpm.Scripts{
				PostInstall: r.packaged("postinstall.sh"), PreRemove: r.packaged("preremove.sh"),
				PostRemove: r.packaged("postremove.sh"),
			},
			RPM: nfpm.RPM{
				BuildHost: "localhost", Group: "Applications/Databases", Packager: "The authors of muster",
				Summary: "Person and company enrichment from your own records",
			},
		},
	}, nil
}
