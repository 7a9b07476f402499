// Command opensearch runs a stock OpenSearch 2.19 on the loopback interface in the foreground, until it is interrupted.
// It is for trying muster with OpenSearch (`make opensearch`), not for production.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"muster/platform/opensearchtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	var o opensearchtest.Options
	flag.IntVar(&o.Port, "port", 9200, "HTTP port; 0 takes a free one")
	flag.StringVar(&o.Dir, "dir", "", "data directory, which is kept; empty: a temporary one, which is removed")
	flag.IntVar(&o.Heap, "heap", 1024, "Java heap, in MiB")
	flag.Func("setting", "setting of the node, as name=value (repeatable)", func(s string) error {
		if name, _, ok := strings.Cut(s, "="); !ok || name == "" {
			return errors.New("must be name=value")
		}
		o.Settings = append(o.Settings, s)
		return nil
	})
	flag.Parse()
	o.Stock = true
	n, err := opensearchtest.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	fmt.Fprintf(os.Stdout, "OpenSearch answers at %s. Ctrl-C stops it. In another terminal:\n\n"+
		"  OPENSEARCH_URL=%s bin/muster up\n", n.URL(), n.URL())
	select {
	case <-ctx.Done():
		return nil
	case <-n.Exited():
		return errors.New("OpenSearch exited")
	}
}
