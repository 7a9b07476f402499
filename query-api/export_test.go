package queryapi

import "net/http"

// SetRedisTimeoutFactor multiplies the Redis timeouts.
func (c *Config) SetRedisTimeoutFactor(times int) { c.redisTimeoutFactor = times }

// Handler returns the handler of the /v1 API.
func (s *Service) Handler() http.Handler { return s.api }

// Addr returns the listening address as host:port.
func (s *Service) Addr() string { return s.server.Addr() }
