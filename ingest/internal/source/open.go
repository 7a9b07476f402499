package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// Open opens a file of any format. Reads return ctx's error after ctx has ended. The caller closes the source.
func Open(ctx context.Context, path string, opts Options) (Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		// The error is an fs.PathError with operation, path and cause.
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("open %s: is a directory", path)
	}
	if opts.Format == FormatAuto {
		opts.Format = formatOfName(path)
	}
	if !info.Mode().IsRegular() {
		p := &pipe{path: path}
		return openStream(ctx, path, p, p, opts)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return openRegular(ctx, path, f, info.Size(), opts)
}

// pipe is a named pipe or a device. It is opened on the first read, because opening it blocks until
// it has a writer.
type pipe struct {
	path string

	mu     sync.Mutex
	file   *os.File
	closed bool
}

func (p *pipe) Read(b []byte) (int, error) {
	f, err := p.open()
	if err != nil {
		return 0, err
	}
	return f.Read(b)
}

// open opens the file on first use. It is called by the reading goroutine only.
func (p *pipe) open() (*os.File, error) {
	if p.file != nil {
		return p.file, nil
	}
	f, err := os.Open(p.path)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.Join(os.ErrClosed, f.Close())
	}
	p.file = f
	return f, nil
}

// Close makes a read return. A blocked open returns only when a writer opens the pipe.
func (p *pipe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}

// FromReader reads from r; the caller closes r. Reads return ctx's error after ctx has ended, even
// while r blocks. The one goroutine that is blocked in r then ends when r returns.
func FromReader(ctx context.Context, name string, r io.Reader, opts Options) (Source, error) {
	return openStream(ctx, name, r, nil, opts)
}

// detectSize is the number of bytes read to detect the format.
const detectSize = 16 << 10

func openRegular(ctx context.Context, path string, f *os.File, size int64, opts Options) (Source, error) {
	head := make([]byte, detectSize)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(err, f.Close())
	}
	head = head[:n]
	if bytes.HasPrefix(head, []byte(parquetMagic)) && opts.Format != FormatNDJSON && opts.Format != FormatCSV &&
		opts.Format != FormatTSV {
		opts.Format = FormatParquet
	}
	if opts.Format == FormatParquet {
		return openParquet(ctx, path, f, size, opts)
	}
	if opts.Format == FormatAuto && isPlain(head) {
		opts.Format = formatOfText(head)
	}
	return openStream(ctx, path, f, f, opts)
}

// openStream returns a source that reads r and closes owned, if it is not nil.
func openStream(ctx context.Context, name string, r io.Reader, owned io.Closer, opts Options) (Source, error) {
	closeAfter := func(err error) error {
		if owned == nil {
			return err
		}
		return errors.Join(err, owned.Close())
	}
	if opts.Format == FormatParquet {
		return nil, closeAfter(
			fmt.Errorf("%s: Parquet can only be read from files, because its footer is at the end", name),
		)
	}
	l, err := newStream(ctx, name, r, opts)
	if err != nil {
		return nil, closeAfter(err)
	}
	l.owned = owned
	if f, ok := owned.(*os.File); ok && opts.Format == FormatNDJSON {
		if info, err := f.Stat(); err != nil {
			return nil, closeAfter(err)
		} else if err := l.seek(f, info.Size()); err != nil {
			return nil, closeAfter(err)
		}
	}
	l.start()
	switch opts.Format {
	case FormatNDJSON:
		return newJSON(l), nil
	case FormatCSV, FormatTSV:
		return newTable(l), nil
	}
	return &detecting{stream: l}, nil
}

// detecting detects the format when the first line has arrived: opening a pipe must not wait for its writer.
type detecting struct {
	*stream
	source Source
}

// Next implements [Source].
func (d *detecting) Next() (*Chunk, error) {
	if d.source == nil {
		for len(d.carry) < detectSize && !bytes.ContainsAny(d.carry, newline+carriageReturn) {
			var err error
			if d.carry, _, err = d.pump.next(d.ctx, d.carry, true); err != nil {
				break // reading returns it again
			}
		}
		if formatOfText(d.carry) == FormatCSV {
			d.source = newTable(d.stream)
		} else {
			d.source = newJSON(d.stream)
		}
	}
	return d.source.Next()
}
