package wire

// edsDiscovery is Cluster.DiscoveryType EDS.
const edsDiscovery = 3

// EndpointsOf returns the name under which a Cluster's endpoints are asked for, or nothing when they do
// not come by EDS.
func EndpointsOf(cluster []byte) (string, error) {
	var name, service []byte
	var discovery uint64
	err := each(cluster, func(f field) (err error) {
		switch f.Num {
		case 1:
			name = f.Bytes
		case 2:
			discovery = f.Int
		case 3:
			service, err = at(f.Bytes, 2)
		}
		return err
	})
	switch {
	case err != nil || discovery != edsDiscovery:
		return "", err
	case len(service) > 0:
		return string(service), nil
	}
	return string(name), nil
}

// SecretsOf returns the names under which a Cluster's certificate and roots are asked for, if they are.
func SecretsOf(cluster []byte) ([]string, error) {
	// Cluster.transport_socket, its typed_config, the value of that, and UpstreamTlsContext.common_tls_context.
	tls, err := at(cluster, 24, 3, 2, 1)
	if err != nil || tls == nil {
		return nil, err
	}
	const certificates, validation, combined = 6, 7, 8
	var names []string
	err = each(tls, func(f field) (err error) {
		var name []byte
		switch f.Num {
		case certificates, validation:
			name, err = at(f.Bytes, 1)
		case combined:
			name, err = at(f.Bytes, 2, 1)
		}
		if len(name) > 0 {
			names = append(names, string(name))
		}
		return err
	})
	return names, err
}

// Health is an endpoint's HealthStatus.
type Health uint64

// Healthy says whether Envoy sends requests to it. Unknown counts as healthy, as it does for Envoy.
func (h Health) Healthy() bool { return h <= 1 }

// Endpoint is an address of a ClusterLoadAssignment.
type Endpoint struct {
	Address []byte
	Port    uint64
	Health  Health
}

// EachEndpoint calls f with every endpoint of a ClusterLoadAssignment, whatever its locality.
func EachEndpoint(assignment []byte, f func(Endpoint)) error {
	return each(assignment, func(locality field) error {
		if locality.Num != 2 {
			return nil
		}
		return each(locality.Bytes, func(endpoint field) error {
			if endpoint.Num != 2 {
				return nil
			}
			e, err := parseEndpoint(endpoint.Bytes)
			if err == nil {
				f(e)
			}
			return err
		})
	})
}

func parseEndpoint(b []byte) (Endpoint, error) {
	var e Endpoint
	err := each(b, func(f field) error {
		switch f.Num {
		case 1:
			socket, err := at(f.Bytes, 1, 1)
			if err != nil {
				return err
			}
			return each(socket, func(part field) error {
				switch part.Num {
				case 2:
					e.Address = part.Bytes
				case 3:
					e.Port = part.Int
				}
				return nil
			})
		case 2:
			e.Health = Health(f.Int)
		}
		return nil
	})
	return e, err
}

// RoutesOf returns the names under which a Listener's routes are asked for.
func RoutesOf(listener []byte) ([]string, error) {
	const filterChains, defaultFilterChain = 3, 25
	var names []string
	err := each(listener, func(chain field) error {
		if chain.Num != filterChains && chain.Num != defaultFilterChain {
			return nil
		}
		return each(chain.Bytes, func(filter field) error {
			if filter.Num != 3 {
				return nil
			}
			name, err := routeOf(filter.Bytes)
			if len(name) > 0 {
				names = append(names, string(name))
			}
			return err
		})
	})
	return names, err
}

// routeOf returns the name of the routes of a network filter that is an HTTP connection manager.
func routeOf(filter []byte) ([]byte, error) {
	config, err := at(filter, 4)
	if err != nil || config == nil {
		return nil, err
	}
	url, err := at(config, 1)
	if err != nil || string(url) != connectionManagerType {
		return nil, err
	}
	const rds, routeConfigName = 3, 2
	return at(config, 2, rds, routeConfigName)
}
