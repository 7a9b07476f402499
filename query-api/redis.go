package queryapi

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisEnv is the environment variable that names the Redis server.
const RedisEnv = "REDIS_URL"

// OpenRedis returns a client for a URL such as redis://user:password@host:6379/0
// or rediss:// for TLS. It does not wait for the server: while that is away the
// rate of keys is not limited, and nothing can be charged.
func OpenRedis(url string) (redis.UniversalClient, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", RedisEnv, err)
	}
	// A server that does not answer must not hold up calls for long.
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = 500*time.Millisecond, 500*time.Millisecond, 500*time.Millisecond
	options.PoolSize, options.MaxRetries = 64, 1
	return redis.NewClient(options), nil
}
