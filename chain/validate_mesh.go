package chain

import "slices"

func (f *findings) mesh(e *Mesh) {
	if e.Name != "" && e.Name != MeshName {
		f.fault(CodeNameNotAllowed, "Name", "%q is not a name for mesh; there is only one, and it needs none", e.Name)
	}
	if e.TLS != nil {
		f.tlsParameters("TLS.Incoming", e.TLS.Incoming)
		f.tlsParameters("TLS.Outgoing", e.TLS.Outgoing)
	}
	if e.HTTP == nil || e.HTTP.Incoming == nil || e.HTTP.Incoming.RequestNormalization == nil {
		return
	}
	const path = "HTTP.Incoming.RequestNormalization"
	n := e.HTTP.Incoming.RequestNormalization
	f.oneOf(path+".PathWithEscapedSlashesAction", n.PathWithEscapedSlashesAction, "IMPLEMENTATION_SPECIFIC_DEFAULT",
		"KEEP_UNCHANGED", "REJECT_REQUEST", "UNESCAPE_AND_REDIRECT", "UNESCAPE_AND_FORWARD")
	f.oneOf(path+".HeadersWithUnderscoresAction", n.HeadersWithUnderscoresAction, "ALLOW", "REJECT_REQUEST", "DROP_HEADER")
}

func (f *findings) tlsParameters(path string, p *MeshTLSParameters) {
	if p == nil {
		return
	}
	f.oneOf(path+".TLSMinVersion", p.TLSMinVersion, tlsVersions()...)
	f.oneOf(path+".TLSMaxVersion", p.TLSMaxVersion, tlsVersions()...)
	for i, suite := range p.CipherSuites {
		f.oneOf(at(path+".CipherSuites", i), suite, cipherSuites()...)
		if suite == "" {
			f.fault(CodeUnknownValue, at(path+".CipherSuites", i), "the name of a cipher suite is empty; leave it out")
		}
	}
	least, most := slices.Index(tlsVersions(), p.TLSMinVersion), slices.Index(tlsVersions(), p.TLSMaxVersion)
	if most > 0 && least > most {
		f.fault(CodeTLSVersions, path, "TLSMaxVersion %s is below TLSMinVersion %s", p.TLSMaxVersion, p.TLSMinVersion)
	}
	if len(p.CipherSuites) > 0 && p.TLSMinVersion == "TLSv1_3" {
		f.fault(CodeTLSCiphers, path+".CipherSuites", "cipher suites are chosen up to TLS 1.2 only; leave them out, or lower TLSMinVersion")
	}
}

// tlsVersions are in their order; the first leaves the choice to Envoy.
func tlsVersions() []string {
	return []string{"TLS_AUTO", "TLSv1_0", "TLSv1_1", "TLSv1_2", "TLSv1_3"}
}

// cipherSuites are those that Consul lets through to Envoy.
func cipherSuites() []string {
	return []string{
		"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
		"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
		"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
		"TLS_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA",
		"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
		"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
		"TLS_RSA_WITH_AES_256_GCM_SHA384", "TLS_RSA_WITH_AES_256_CBC_SHA",
	}
}
