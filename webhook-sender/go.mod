module muster/webhook-sender

go 1.26.0

require muster/schemas v0.0.0

require muster/platform v0.0.0

replace muster/schemas => ../schemas

replace muster/platform => ../platform

