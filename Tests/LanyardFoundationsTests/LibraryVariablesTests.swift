import LanyardFoundations
import Testing

@Suite struct LibraryVariablesTests {
    @Test("what libraries obey is cleared, proxies apart; everything else stays")
    func names() {
        for name in ["SSLKEYLOGFILE", "OPENSSL_CONF", "SSL_CERT_FILE", "CURL_CA_BUNDLE", "HOSTALIASES", "RES_OPTIONS"] {
            #expect(LibraryVariables.always.contains(name) && !LibraryVariables.proxies.contains(name))
        }
        for name in ["http_proxy", "HTTPS_PROXY", "ALL_PROXY", "no_proxy"] {
            #expect(LibraryVariables.proxies.contains(name) && !LibraryVariables.always.contains(name))
        }
        for name in ["PATH", "HOME", "LANYARD_UPSTREAM", "CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "TZ", "CURL"] {
            #expect(!LibraryVariables.always.contains(name) && !LibraryVariables.proxies.contains(name))
        }
    }
}
