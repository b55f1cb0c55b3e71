package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/pflag"

	"github.com/catenary-mesh/catenary/internal/identity"
	"github.com/catenary-mesh/catenary/internal/metrics"
	"github.com/catenary-mesh/catenary/xds"
)

// questionFlags say who may ask what clients are served, and how often these say what became of it.
type questionFlags struct {
	tokenFile string
	every     time.Duration
}

func (f *questionFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.tokenFile, "admin-token-file", "", "the `file` with the operator's token, who may ask over CSDS what every client is served; read at each question")
	flags.DurationVar(&f.every, "load-report-interval", 10*time.Second, "how often clients that report their loads are to do so, 1s or more")
}

// questions is how questions are answered. The zero value has no operator.
type questions struct {
	operator *identity.Operator // nil without one
	every    time.Duration      // 0 for the default
}

func (f *questionFlags) open() (questions, error) {
	if f.every < time.Second {
		return questions{}, fmt.Errorf("--load-report-interval %s is too short: give 1s or more", f.every)
	}
	q := questions{every: f.every}
	if f.tokenFile == "" {
		return q, nil
	}
	var err error
	if q.operator, err = identity.OpenOperator(f.tokenFile); err != nil {
		return questions{}, fmt.Errorf("--admin-token-file: %w", err)
	}
	return q, nil
}

// answer sets how an xDS server of the plane answers.
func (q questions) answer(p *plane, cfg *xds.Config) {
	cfg.Questions = xds.Questions{
		Certificates: slices.Contains(p.auth.ways, authMTLS),
		// Whoever can connect is on this machine, and believed in all else.
		Everyone: len(p.auth.ways) == 0 && isLoopback(p.grpc.Addr()),
	}
	if q.operator != nil {
		cfg.Questions.Operator = q.operator
	}
	cfg.Loads, cfg.LoadReportEvery = loads{p.counts}, q.every
}

// warn says that the operator's token can be read on its way to an address that is not only this machine's.
func (q questions) warn(log hclog.Logger, addr string, encrypted bool) {
	if q.operator != nil && !encrypted {
		log.Warn("whoever listens on the way can read the operator's token that is sent to this address; --grpc-tls-cert encrypts it", "grpc", addr)
	}
}

// loads counts loads as metrics.
type loads struct{ *metrics.Metrics }

// Load implements [xds.Loads].
func (l loads) Load(of xds.Load, n uint64) { l.Metrics.Load(metrics.Load(of), n) }
