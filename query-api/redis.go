package queryapi

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"muster/query-api/internal/redisguard"
)

// RedisEnv is the environment variable that names the Redis server.
const RedisEnv = "REDIS_URL"

// OpenRedis returns a client for a URL such as redis://user:password@host:6379/0
// or rediss:// for TLS. It does not wait for the server: while that is away the
// rate of keys is not limited, and nothing can be charged.
func OpenRedis(url string) (redis.UniversalClient, error) {
	client, err := redisguard.Open(url, redisguard.DefaultTimeouts())
	if err != nil {
		return nil, fmt.Errorf("%s is %w", RedisEnv, err)
	}
	return client, nil
}
