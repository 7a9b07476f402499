package docs

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"

	"muster/query-api/internal/staticfiles"
)

const (
	// guidesDir and pagesDir are the directories of the guides and of Config.Pages in the repository. Relative links
	// are resolved with them.
	guidesDir = "query-api/internal/docs/guides"
	pagesDir  = "deploy/docs"
	// indexPath is the path of the list of all pages.
	indexPath = Path + "/pages"
)

// guides returns the names of the guides in the order in which a new user needs them.
func guides() []string { return []string{"first-call", "search", "cursors", "webhooks", "errors"} }

// Guide returns the Markdown of a guide. clauses is as in [Config].
func Guide(name, clauses string) ([]byte, error) {
	source, err := files.ReadFile("guides/" + name + ".md")
	if err != nil {
		return nil, err
	}
	_, clauses, _ = strings.Cut(clauses, "\n## ") // the guide has its own title and introduction
	return bytes.ReplaceAll(source, []byte("{{clauses}}"), []byte("## "+clauses)), nil
}

// site is the set of rendered pages.
type site struct {
	pages  []*page
	groups []group
	other  map[string]staticfiles.File // images and data, by path
}

// newSite renders the guides and the pages of cfg.
func newSite(cfg Config) (*site, error) {
	s := &site{other: make(map[string]staticfiles.File)}
	served := make(map[string]string)
	sources := make(map[*page][]byte)
	add := func(p *page, source []byte) {
		served[p.Source] = p.Path
		sources[p] = source
		s.pages = append(s.pages, p)
	}
	for _, name := range guides() {
		source, err := Guide(name, cfg.Clauses)
		if err != nil {
			return nil, err
		}
		add(&page{Path: Path + "/guides/" + name, Source: guidesDir + "/" + name + ".md"}, source)
	}
	if err := s.readPages(cfg.Pages, served, add); err != nil {
		return nil, err
	}
	for _, p := range s.pages {
		served[p.Path] = p.Path
	}
	if cfg.Reference {
		served[Path], served[descriptionPath] = Path, descriptionPath
	}
	c := newConverter(served)
	for _, p := range s.pages {
		if err := c.convert(p, sources[p]); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Source, err)
		}
	}
	s.arrange(c, sources)
	return s, nil
}

// readPages adds the Markdown files of pages, and serves the other files as they are. README.md is the page of its
// directory.
func (s *site) readPages(pages fs.FS, served map[string]string, add func(*page, []byte)) error {
	if pages == nil {
		return nil
	}
	return fs.WalkDir(pages, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		source, err := fs.ReadFile(pages, name)
		if err != nil {
			return err
		}
		kind := map[string]string{
			".md": "text/html; charset=utf-8", ".png": "image/png", ".svg": "image/svg+xml", ".json": "application/json",
		}[path.Ext(name)]
		repositoryPath := pagesDir + "/" + name
		switch dir, base := path.Split(name); {
		case kind == "": // not part of a page
		case name == "README.md":
			served[pagesDir] = indexPath
			add(&page{Path: indexPath, Source: repositoryPath}, source)
		case base == "README.md":
			served[path.Join(pagesDir, dir)] = path.Join(Path, dir)
			add(&page{Path: path.Join(Path, dir), Source: repositoryPath, Nested: true}, source)
		case path.Ext(name) == ".md":
			add(&page{
				Path: Path + "/" + strings.TrimSuffix(name, ".md"), Source: repositoryPath, Nested: dir != "",
			}, source)
		default:
			served[repositoryPath] = Path + "/" + name
			s.other[Path+"/"+name] = staticfiles.File{Kind: kind, Body: source}
		}
		return nil
	})
}

// arrange sets the navigation: the pages under the second-level headings of the index, in its order. The guides and,
// under "More", the pages that it does not link are added, except those in a directory.
func (s *site) arrange(c *converter, sources map[*page][]byte) {
	byPath := make(map[string]*page)
	for _, p := range s.pages {
		byPath[p.Path] = p
	}
	listed := map[*page]bool{byPath[indexPath]: true}
	if index := byPath[indexPath]; index != nil {
		source := sources[index]
		// The callback returns no error.
		_ = ast.Walk(c.md.Parser().Parse(text.NewReader(source)),
			func(n ast.Node, entering bool) (ast.WalkStatus, error) {
				if !entering {
					return ast.WalkContinue, nil
				}
				switch n := n.(type) {
				case *ast.Heading:
					if n.Level == 2 {
						s.groups = append(s.groups, group{Title: plainText(n, source)})
					}
				case *ast.Link:
					p := byPath[c.served[path.Join(pagesDir, string(n.Destination))]]
					if p != nil && !listed[p] && len(s.groups) > 0 {
						last := &s.groups[len(s.groups)-1]
						last.Pages, listed[p] = append(last.Pages, p), true
					}
				}
				return ast.WalkContinue, nil
			})
	}
	guides, more := group{Title: "API guides"}, group{Title: "More"}
	for _, p := range s.pages {
		switch {
		case listed[p] || p.Nested:
		case path.Dir(p.Source) == guidesDir:
			guides.Pages = append(guides.Pages, p)
		default:
			more.Pages = append(more.Pages, p)
		}
	}
	slices.SortFunc(more.Pages, func(a, b *page) int { return strings.Compare(a.Title, b.Title) })
	s.groups = slices.DeleteFunc(slices.Concat([]group{guides}, s.groups, []group{more}),
		func(g group) bool { return len(g.Pages) == 0 })
}
