package queryapi

// SetRedisPatience multiplies how long Redis is waited for.
func (c *Config) SetRedisPatience(times int) { c.redisPatience = times }
