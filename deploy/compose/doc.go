// Package compose contains the deployment on a single host: the compose file, and the
// configuration of Prometheus and Grafana. It has no code; its tests compare these files
// with the program.
package compose
