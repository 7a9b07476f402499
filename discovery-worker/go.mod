module muster/discovery-worker

go 1.26.0

require muster/schemas v0.0.0

require muster/platform v0.0.0

require (
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/prometheus/client_golang v1.25.0 // indirect
	github.com/segmentio/kafka-go v0.4.51 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
)

replace muster/schemas => ../schemas

replace muster/platform => ../platform
