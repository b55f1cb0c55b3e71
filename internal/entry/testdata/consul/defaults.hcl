Kind = "proxy-defaults"
Name = "global"
Config {
  protocol = "http"
  nested { list = [{ one = 1 }] two = [{ a = 1 }, { b = 2 }] deep { x = [[1, 2], [3]] } }
  repeated { a = 1 }
  repeated { b = true }
  text = <<-END
    indented
      more
    END
  number = 0x1f
  float = -1.5e3
  empty = []
  none {}
}
Meta { on = true off = false size = 1.50 big = 12345678901 }
mesh_gateway { mode = "local" }
expose { checks = "true" paths { path = "/x" listener_port = "8080" local_path_port = 81 protocol = "http" } }
AccessLogs { Enabled = 1 Type = "file" Path = "/tmp/x" TextFormat = "%START_TIME%" }
transparent_proxy { outbound_listener_port = 15001 dialed_directly = true }
