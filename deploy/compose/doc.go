// Package compose holds what runs muster on servers of their own: the compose
// file, and what Prometheus and Grafana are told. It has no code; its tests hold
// these files against the program.
package compose
