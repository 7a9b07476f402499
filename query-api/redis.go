package queryapi

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"muster/platform/tlsclient"
	"muster/query-api/internal/redisbreaker"
)

// RedisEnv is the environment variable with the Redis URL.
const RedisEnv = "REDIS_URL"

// OpenRedis returns a client configured by environment variables; getenv is [os.Getenv]. It does not wait for the
// server. While Redis is unavailable, rates are not limited and nothing can be charged.
//
//	REDIS_URL            redis://user:password@host:6379/0, or rediss:// for TLS; with Sentinels
//	                     redis://user:password@sentinel:26379/0?master_name=NAME&addr=sentinel2:26379
//	                     &username=U&password=P, where
//	                     the user before the @ is for the Sentinels, username and password are for Redis
//	REDIS_TLS_CA_FILE    PEM file of trusted certificate authorities; default: those of the system
//	REDIS_TLS_CERT_FILE, REDIS_TLS_KEY_FILE
//	                     PEM files of the client certificate and its key, also for Sentinels (package tlsclient)
func OpenRedis(getenv func(string) string) (redis.UniversalClient, error) {
	files, err := tlsclient.FromEnv(getenv, "REDIS")
	if err != nil {
		return nil, err
	}
	client, err := redisbreaker.Open(getenv(RedisEnv), files, redisbreaker.DefaultTimeouts())
	if err != nil {
		return nil, fmt.Errorf("%s is %w", RedisEnv, err)
	}
	return client, nil
}
