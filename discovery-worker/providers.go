package discovery

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muster/discovery-worker/internal/background"
	"muster/discovery-worker/internal/codehost"
	"muster/discovery-worker/internal/evidence"
	"muster/discovery-worker/internal/finder"
	"muster/discovery-worker/internal/judge"
	"muster/discovery-worker/internal/model"
	"muster/discovery-worker/internal/people"
	"muster/discovery-worker/internal/provider"
	"muster/discovery-worker/internal/websearch"
	"muster/schemas/identity"
)

// Providers configures the data sources in addition to the read models. The zero value is none.
type Providers struct {
	// SearXNG, Brave, Tavily and Exa are web search services. One without URL and key is not used.
	SearXNG, Brave, Tavily, Exa Endpoint
	// CodeHost looks up accounts live. Its keys are tokens that are rotated.
	CodeHost Endpoint
	// Model is the language model that scores candidates and fills in schemas.
	Model model.Config
	// Timeout limits one call (default 5 s), Concurrent the concurrent calls to one provider
	// (default 4).
	Timeout    time.Duration
	Concurrent int
	// Failures is the number of consecutive failures that open a provider's breaker, for OpenFor.
	// Defaults 5 and 30 s.
	Failures uint32
	OpenFor  time.Duration
	// Prior is the probability that a person has a profile in the store.
	Prior evidence.Prior
}

// Endpoint is the address and keys of a provider.
type Endpoint struct {
	URL  string
	Keys []string
}

func (e Endpoint) configured() bool { return e.URL != "" || len(e.Keys) > 0 }

// Environment variables of [ProvidersFromEnv]. Those of the language model are MUSTER_LLM_URL,
// MUSTER_LLM_API_KEY and MUSTER_LLM_NAME.
const (
	EnvSearXNGURL     = "SEARXNG_URL"
	EnvBraveURL       = "BRAVE_URL"
	EnvBraveKey       = "BRAVE_API_KEY"
	EnvTavilyURL      = "TAVILY_URL"
	EnvTavilyKey      = "TAVILY_API_KEY"
	EnvExaURL         = "EXA_URL"
	EnvExaKey         = "EXA_API_KEY"
	EnvCodeHostURL    = "CODEHOST_API_URL"
	EnvCodeHostTokens = "CODEHOST_API_TOKENS" //nolint:gosec // a name
	EnvTimeout        = "DISCOVERY_PROVIDER_TIMEOUT"
	EnvConcurrent     = "DISCOVERY_PROVIDER_CONCURRENCY"
	EnvPrevalence     = "DISCOVERY_PREVALENCE"
	EnvCoverage       = "DISCOVERY_COVERAGE"
	EnvPopulation     = "DISCOVERY_POPULATION"
)

// ProvidersFromEnv reads the configuration from environment variables. Errors name the variable.
func ProvidersFromEnv(getenv func(string) string) (Providers, error) {
	keys := func(name string) []string {
		var out []string
		for k := range strings.SplitSeq(getenv(name), ",") {
			if k = strings.TrimSpace(k); k != "" {
				out = append(out, k)
			}
		}
		return out
	}
	var errs []error
	p := Providers{
		SearXNG:  Endpoint{URL: getenv(EnvSearXNGURL)},
		Brave:    Endpoint{getenv(EnvBraveURL), keys(EnvBraveKey)},
		Tavily:   Endpoint{getenv(EnvTavilyURL), keys(EnvTavilyKey)},
		Exa:      Endpoint{getenv(EnvExaURL), keys(EnvExaKey)},
		CodeHost: Endpoint{getenv(EnvCodeHostURL), keys(EnvCodeHostTokens)},
	}
	for name, e := range map[string]Endpoint{EnvBraveKey: p.Brave, EnvTavilyKey: p.Tavily, EnvExaKey: p.Exa} {
		switch {
		case e.URL != "" && len(e.Keys) == 0:
			errs = append(errs, fmt.Errorf("%s is missing; this provider requires an API key", name))
		case len(e.Keys) > 1:
			errs = append(errs, fmt.Errorf("%s has %d keys; give one", name, len(e.Keys)))
		}
	}
	for name, address := range map[string]string{
		EnvSearXNGURL: p.SearXNG.URL, EnvBraveURL: p.Brave.URL, EnvTavilyURL: p.Tavily.URL, EnvExaURL: p.Exa.URL,
		EnvCodeHostURL: p.CodeHost.URL,
	} {
		if address == "" {
			continue
		}
		if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			errs = append(errs, fmt.Errorf("%s is invalid; give an http or https URL", name))
		}
	}
	if text := getenv(EnvTimeout); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			errs = append(errs, fmt.Errorf("%s is invalid; give a positive duration, such as 5s", EnvTimeout))
		}
		p.Timeout = d
	}
	if text := getenv(EnvConcurrent); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			errs = append(errs, fmt.Errorf("%s is invalid; give a whole number of at least 1", EnvConcurrent))
		}
		p.Concurrent = n
	}
	var err error
	if p.Prior, err = priorFromEnv(getenv); err != nil {
		errs = append(errs, err)
	}
	if p.Model, err = model.ConfigFromEnv(getenv); err != nil {
		errs = append(errs, err)
	}
	return p, errors.Join(errs...)
}

// maxPopulation is the maximum number of people for each one in the store: a store of one person among all people.
const maxPopulation = 1e10

// priorFromEnv reads the prevalence, a probability; the population, a number of at least 1; and the coverage: a
// probability for all platforms, or PLATFORM=PROBABILITY, comma-separated.
func priorFromEnv(getenv func(string) string) (prior evidence.Prior, err error) {
	probability := func(text string) (float64, bool) {
		p, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		return p, err == nil && p > 0 && p <= 1
	}
	if text := getenv(EnvPrevalence); text != "" {
		p, ok := probability(text)
		if !ok {
			return prior, fmt.Errorf("%s is invalid; give a probability above 0 and at most 1", EnvPrevalence)
		}
		prior.Prevalence = p
	}
	if text := getenv(EnvPopulation); text != "" {
		n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || !(n >= 1 && n <= maxPopulation) {
			return prior, fmt.Errorf("%s is invalid; give the number of people for each one in the store, at least 1",
				EnvPopulation)
		}
		prior.Population = n
	}
	text := getenv(EnvCoverage)
	if text == "" {
		return prior, nil
	}
	prior.Coverage = make(map[string]float64)
	for entry := range strings.SplitSeq(text, ",") {
		platform, share, named := strings.Cut(entry, "=")
		platforms := []string{strings.TrimSpace(platform)}
		if !named {
			platforms, share = identity.PlatformNames(), entry
		}
		p, ok := probability(share)
		if !ok || !identity.KnownPlatform(platforms[0]) {
			return prior, fmt.Errorf("%s is invalid; give a probability above 0 and at most 1, for all platforms or as "+
				"PLATFORM=PROBABILITY, comma-separated; the platforms are %s", EnvCoverage,
				strings.Join(identity.PlatformNames(), ", "))
		}
		for _, name := range platforms {
			prior.Coverage[name] = p
		}
	}
	return prior, nil
}

// model returns the client of the language model, or nil if none is configured.
func (p Providers) model(logger *slog.Logger, reg prometheus.Registerer) (*model.Client, error) {
	if !p.Model.Enabled() {
		return nil, nil
	}
	return model.New(p.Model, model.Deps{Logger: logger, Registerer: reg})
}

// finderProviders builds the providers of the finder.
func (p Providers) finderProviders(platforms *identity.Platforms, logger *slog.Logger, reg prometheus.Registerer,
	now func() time.Time, languageModel *model.Client, work *background.Group) (finder.Providers, error) {
	var out finder.Providers
	metrics, err := provider.NewMetrics(reg)
	if err != nil {
		return out, err
	}
	limits := provider.Config{Timeout: p.Timeout, Concurrent: p.Concurrent, Failures: p.Failures, OpenFor: p.OpenFor,
		Background: work}
	client := provider.NewClient()
	var services []websearch.Service
	for _, s := range []struct {
		name string
		at   Endpoint
	}{{websearch.SearXNG, p.SearXNG}, {websearch.Brave, p.Brave}, {websearch.Tavily, p.Tavily},
		{websearch.Exa, p.Exa}} {
		if !s.at.configured() {
			continue
		}
		service, err := websearch.NewService(s.name,
			websearch.Endpoint{URL: s.at.URL, Key: strings.Join(s.at.Keys, ",")}, client)
		if err != nil {
			return out, err
		}
		guarded, err := provider.Guard(service, limits, func(q websearch.Query) string {
			return q.Host + "\n" + q.Text
		}, metrics, logger)
		if err != nil {
			return out, err
		}
		services = append(services, guarded)
	}
	out.Web = websearch.New(services, platforms)
	if p.CodeHost.configured() {
		if out.Live, err = p.codeHost(client, limits, metrics, platforms, logger, now); err != nil {
			return out, err
		}
	}
	if languageModel != nil {
		j := judge.New(languageModel)
		// The client has its own limits. The guard adds a cache and shares concurrent equal calls.
		if out.Judge, err = provider.Guard(j, provider.Config{Timeout: 2 * time.Minute, Concurrent: 64, CacheSize: 2000,
			Background: work}, judge.Question.Key, metrics, logger); err != nil {
			return out, err
		}
		out.JudgeVersion = j.Version()
	}
	return out, nil
}

func (p Providers) codeHost(
	client *http.Client, limits provider.Config, metrics *provider.Metrics, platforms *identity.Platforms,
	logger *slog.Logger, now func() time.Time,
) (provider.Provider[string, *people.Profile], error) {
	address := p.CodeHost.URL
	if address == "" {
		address = codehost.DefaultURL
	}
	host, err := codehost.New(codehost.Config{URL: address, Tokens: p.CodeHost.Keys}, client, platforms, now)
	if err != nil {
		return nil, err
	}
	// After that, responses are revalidated.
	limits.CacheFor = 10 * time.Minute
	return provider.Guard(host, limits, identity.NormalizeUsername, metrics, logger)
}
