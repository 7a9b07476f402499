package compose_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into), path)
}

// metricNames are the names that the services' sources give to metrics.
func metricNames(t *testing.T) map[string]bool {
	t.Helper()
	whole := regexp.MustCompile(`"(muster_[a-z0-9_]+)"`)
	names := regexp.MustCompile(`const ns, sub = "(\w+)", "(\w+)"`)
	part := regexp.MustCompile(`(?:\(|Subsystem: sub, Name: )"([a-z0-9_]+)", (?:Help: )?"[A-Z]`)
	option := regexp.MustCompile(`Namespace: "(\w+)", Subsystem: "(\w+)", Name: "(\w+)"`)
	found := map[string]bool{}
	for _, module := range []string{"platform", "ingest", "projector", "query-api", "discovery-worker", "webhook-sender"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("..", "..", module), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text := string(raw)
			for _, m := range whole.FindAllStringSubmatch(text, -1) {
				found[m[1]] = true
			}
			for _, m := range option.FindAllStringSubmatch(text, -1) {
				found[m[1]+"_"+m[2]+"_"+m[3]] = true
			}
			if prefix := names.FindStringSubmatch(text); prefix != nil {
				for _, m := range part.FindAllStringSubmatch(text, -1) {
					found[prefix[1]+"_"+prefix[2]+"_"+m[1]] = true
				}
			}
			return nil
		}))
	}
	require.Greater(t, len(found), 30)
	return found
}

// Dashboards and alerts ask for metrics that there are.
func TestMetricsThatAreAskedForExist(t *testing.T) {
	known := metricNames(t)
	asked := regexp.MustCompile(`muster_[a-z0-9_]+`)
	for _, path := range []string{"alerts.yaml", "grafana/muster.json"} {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		names := asked.FindAllString(string(text), -1)
		require.NotEmpty(t, names)
		for _, name := range names {
			base := name
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				base = strings.TrimSuffix(base, suffix)
			}
			require.True(t, known[name] || known[base], "%s asks for %s, which no service has", path, name)
		}
	}
	var alerts struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations struct{ Summary string }
			}
		}
	}
	read(t, "alerts.yaml", &alerts)
	for _, rule := range alerts.Groups[0].Rules {
		require.NotEmpty(t, rule.Alert)
		require.NotEmpty(t, rule.Expr, rule.Alert)
		require.NotEmpty(t, rule.Annotations.Summary, rule.Alert)
	}
	var dashboard struct {
		Panels []struct{ Title string }
	}
	text, err := os.ReadFile("grafana/muster.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &dashboard, json.MatchCaseInsensitiveNames(true)))
	require.NotEmpty(t, dashboard.Panels)
}

// The compose file runs every service of the program, on volumes that it
// declares, behind what they need, and is scraped.
func TestCompose(t *testing.T) {
	type service struct {
		Command     []string
		Image       string
		ReadOnly    bool `yaml:"read_only"`
		Volumes     []string
		Environment map[string]string
		DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
		Healthcheck map[string]any
	}
	var file struct {
		Services map[string]service
		Volumes  map[string]any
	}
	read(t, "compose.yaml", &file)
	var scraped struct {
		Scrape []struct {
			Static []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	read(t, "prometheus.yaml", &scraped)
	source, err := os.ReadFile("../cmd/muster/run.go")
	require.NoError(t, err)
	for _, name := range []string{"ingest", "projector", "query-api", "discovery-worker", "webhook-sender"} {
		s, ok := file.Services[name]
		require.True(t, ok, name)
		require.Equal(t, []string{"run", name}, s.Command[:2])
		require.Contains(t, string(source), `"`+name+`"`, "muster run knows it")
		require.Contains(t, s.Command, "${MUSTER_LOG_LEVEL:-info}", name)
		require.True(t, s.ReadOnly, "%s writes to its volume only", name)
		require.Equal(t, []string{name + ":/data"}, s.Volumes)
		require.Equal(t, "service_completed_successfully", s.DependsOn["migrate"].Condition, name)
		for _, variable := range []string{"KAFKA_BROKERS", "CLICKHOUSE_DSN", "REDIS_URL", "MUSTER_SECRET_KEY"} {
			require.NotEmpty(t, s.Environment[variable], "%s %s", name, variable)
		}
		require.Contains(t, scraped.Scrape[0].Static[0].Targets, name+":8082")
	}
	require.Contains(t, file.Services["projector"].Command, "${MUSTER_ERASE_WITHIN:-24h}")
	for _, name := range []string{"query-api", "webhook-sender"} {
		require.Contains(t, file.Services[name].Command, "--webhook-allow=${MUSTER_WEBHOOK_ALLOW:-}")
	}
	for name, s := range file.Services {
		for _, volume := range s.Volumes {
			from, _, _ := strings.Cut(volume, ":")
			if strings.HasPrefix(from, "./") {
				_, err := os.Stat(from)
				require.NoError(t, err, name)
				continue
			}
			require.Contains(t, file.Volumes, from, name)
		}
		for other := range s.DependsOn {
			require.Contains(t, file.Services, other, name)
		}
		if s.Image != "muster" {
			require.Regexp(t, `:[^:]*\d`, s.Image, "%s: a version", name)
		}
	}
}

// A named volume gets the owner of what the image has in its place. Without anything
// there it is root's, and the services, who are somebody else, can write nothing.
func TestDataIsTheProgramsOwn(t *testing.T) {
	text, err := os.ReadFile("../Dockerfile")
	require.NoError(t, err)
	build, image, ok := strings.Cut(string(text), "\nFROM gcr.io/")
	require.True(t, ok)
	require.Contains(t, build, " && mkdir /data\n")
	user := regexp.MustCompile(`\nUSER (\d+:\d+)\n`).FindStringSubmatch(image)
	require.NotNil(t, user)
	before, _, ok := strings.Cut(image, "\nVOLUME /data\n") // what follows it is not kept
	require.True(t, ok)
	require.Contains(t, before, "\nCOPY --from=build --chown="+user[1]+" /data /data\n")
}

func TestClickHouseConfigurationIsXML(t *testing.T) {
	files, err := filepath.Glob("clickhouse/*.xml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		for d := xml.NewDecoder(bytes.NewReader(raw)); ; {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, file)
		}
	}
}

// Who starts it is told, at the head of the file, of every variable without which it refuses to.
func TestNeededVariablesAreNamed(t *testing.T) {
	raw, err := os.ReadFile("compose.yaml")
	require.NoError(t, err)
	head, body, ok := strings.Cut(string(raw), "\nname:")
	require.True(t, ok)
	needed := regexp.MustCompile(`\$\{(\w+):\?`).FindAllStringSubmatch(body, -1)
	require.NotEmpty(t, needed)
	for _, m := range needed {
		require.Contains(t, head, m[1])
	}
}
