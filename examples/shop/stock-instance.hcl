# The only instance of stock. Make its check "critical" and stock-backup takes over.

service {
  name    = "stock"
  id      = "stock-1"
  address = "127.0.0.1"
  port    = 9104
  checks  = [{ name = "stock answers", ttl = "1h", status = "passing" }]
}
