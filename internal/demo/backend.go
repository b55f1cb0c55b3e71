package demo

import (
	"fmt"
	"net"
	"net/http"
	"time"
)

// header is where a backend says who answers.
const header = "X-Answered-By"

// backends is the shop's services: small HTTP servers in this process.
type backends struct {
	servers []*http.Server
	done    []chan struct{}
	ports   map[int]int
}

// startBackends starts a backend for each instance, on its own port or on a free one.
func startBackends(p ports) (*backends, error) {
	b := &backends{ports: map[int]int{}}
	for _, in := range instances() {
		l, err := p.listen(in.port)
		if err != nil {
			b.close()
			return nil, err
		}
		b.serve(in, l)
	}
	return b, nil
}

func (b *backends) serve(in instance, l net.Listener) {
	server := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(header, in.label)
			fmt.Fprintf(w, "%s answers, as %s\n", in.id, in.label)
		}),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // ends with close
	}()
	b.servers, b.done = append(b.servers, server), append(b.done, done)
	b.ports[in.port] = portOf(l.Addr().String())
}

// moved maps the ports in the example's files to those in use.
func (b *backends) moved() map[int]int { return b.ports }

func (b *backends) close() {
	for i, s := range b.servers {
		_ = s.Close() // nobody is told of what is cut off
		<-b.done[i]
	}
}
