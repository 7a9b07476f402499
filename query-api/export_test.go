package queryapi

import "net/http"

// SetRedisPatience multiplies how long Redis is waited for.
func (c *Config) SetRedisPatience(times int) { c.redisPatience = times }

// Handler answers the /v1 interface without the listener.
func (s *Service) Handler() http.Handler { return s.api }

// Addr is the address that is listened on, as host:port.
func (s *Service) Addr() string { return s.server.Addr() }
