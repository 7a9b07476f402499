package compose_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into), path)
}

func TestCompose_RunsAndScrapesEveryService(t *testing.T) {
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
		require.Contains(t, string(source), `"`+name+`"`, "a service of muster run")
		require.Contains(t, s.Command, "${MUSTER_LOG_LEVEL:-info}", name)
		require.True(t, s.ReadOnly, "%s writes only to its volume", name)
		require.Equal(t, []string{name + ":/data"}, s.Volumes)
		require.Equal(t, "service_completed_successfully", s.DependsOn["migrate"].Condition, name)
		for _, variable := range []string{"KAFKA_BROKERS", "CLICKHOUSE_DSN", "REDIS_URL", "MUSTER_SECRET_KEY"} {
			require.NotEmpty(t, s.Environment[variable], "%s %s", name, variable)
		}
		require.Contains(t, scraped.Scrape[0].Static[0].Targets, name+":8082")
		require.Contains(t, strings.Split(s.Environment["MUSTER_ADMIN_HOSTS"], ","), name, "Prometheus uses this name")
	}
	require.Contains(t, file.Services["projector"].Command, "${MUSTER_ERASURE_DEADLINE:-24h}")
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

// A named volume gets the owner of the directory in the image. Without one it belongs to root, and the services cannot
// write to it.
func TestDockerfile_DataDirectoryBelongsToTheServiceUser(t *testing.T) {
	text, err := os.ReadFile("../Dockerfile")
	require.NoError(t, err)
	build, image, ok := strings.Cut(string(text), "\nFROM gcr.io/")
	require.True(t, ok)
	require.Contains(t, build, " && mkdir /data\n")
	user := regexp.MustCompile(`\nUSER (\d+:\d+)\n`).FindStringSubmatch(image)
	require.NotNil(t, user)
	before, _, ok := strings.Cut(image, "\nVOLUME /data\n") // later changes to /data are not kept
	require.True(t, ok)
	require.Contains(t, before, "\nCOPY --from=build --chown="+user[1]+" /data /data\n")
}

func TestCompose_ClickHouseConfigurationIsXML(t *testing.T) {
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

func TestCompose_HeaderNamesRequiredVariables(t *testing.T) {
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
