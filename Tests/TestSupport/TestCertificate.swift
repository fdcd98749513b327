/// The certificate of an authority that signs nothing: for configurations that must name one.
package enum TestCertificate {
    /// Good until 2126.
    package static let pem = """
        -----BEGIN CERTIFICATE-----
        MIIBiTCCAS+gAwIBAgIUXo/xz/LoGdIXb9DIhIn3H0FPO9QwCgYIKoZIzj0EAwIw
        GTEXMBUGA1UEAwwOVGVzdCBhdXRob3JpdHkwIBcNMjYxMTIyMDU0ODU0WhgPMjEy
        NjEwMjkwNTQ4NTRaMBkxFzAVBgNVBAMMDlRlc3QgYXV0aG9yaXR5MFkwEwYHKoZI
        zj0CAQYIKoZIzj0DAQcDQgAEwzlOeGaoZWop/QekEz0I+g25O5ipls6p8YrGA1SY
        A52NA2sZFyM7j3Y1HJbMRZFqdWP4Muu8IDVk4Ct3JT23/6NTMFEwHQYDVR0OBBYE
        FCjjnBaaJJJZMo6FR4rMk8jH6h9zMB8GA1UdIwQYMBaAFCjjnBaaJJJZMo6FR4rM
        k8jH6h9zMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIhANGwVPXs
        8zSBC92TZ2Wr+lFg8uya6vH0FwuX2I15KoeEAiAEIbmgQbw/yDAUlOy8UJh4C93v
        yZVhmaJoPgUpOWWnyQ==
        -----END CERTIFICATE-----

        """
}
