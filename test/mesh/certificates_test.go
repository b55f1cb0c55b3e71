package mesh_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"testing"
)

// shown is the certificate that the sidecar of a service shows to the mesh. Without one of their own clients
// get no further than that.
func (of *member) shown() (*x509.Certificate, error) {
	var leaf *x509.Certificate
	conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", of.public), &tls.Config{
		InsecureSkipVerify: true,
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			var err error
			leaf, err = x509.ParseCertificate(raw[0])
			return err
		},
	})
	if err == nil {
		conn.Close()
	}
	if leaf == nil {
		return nil, fmt.Errorf("the sidecar of %s shows no certificate: %w", of.name, err)
	}
	return leaf, nil
}

// serials are those of the certificates that sidecars show.
func serials(t *testing.T, members ...*member) map[*member]string {
	t.Helper()
	list := map[*member]string{}
	for _, of := range members {
		leaf, err := of.shown()
		if err != nil {
			t.Fatal(err)
		}
		list[of] = leaf.SerialNumber.String()
	}
	return list
}
