# When no instance of stock is healthy, its requests go to stock-backup.

Kind = "service-resolver"
Name = "stock"
Failover = {
  "*" = { Service = "stock-backup" }
}
