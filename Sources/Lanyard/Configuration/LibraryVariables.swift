/// Variables that change what libraries do, and that nobody has set for Lanyard: they come from a shell profile or a base image.
///
/// What is read before `main` cannot be helped: `LD_*`, `GLIBC_TUNABLES`, `MALLOC_*`, `OPENSSL_ia32cap`.
package enum LibraryVariables: Sendable {
    /// TLS secrets, providers, trust, and how names are resolved.
    case always
    /// Read by libcurl for identities with `proxy: environment` only.
    case proxies

    private static let libraryVariables: Set<String> = [
        // Writes the secrets of every TLS connection to a file (libcurl).
        "SSLKEYLOGFILE",
        // Configuration and code that OpenSSL loads.
        "OPENSSL_CONF", "OPENSSL_CONF_INCLUDE", "OPENSSL_MODULES", "OPENSSL_ENGINES", "OPENSSL_TRACE",
        // Whom OpenSSL trusts: `tls.ca_file` of the identity says that.
        "SSL_CERT_FILE", "SSL_CERT_DIR", "CTLOG_FILE",
        // Passwords and logs of libcurl.
        "NETRC", "SSL_DIR", "QLOGDIR",
        // Names that glibc resolves to other names, and by other rules, than /etc/hosts and /etc/resolv.conf say.
        "HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS",
    ]
    private static let prefixes = ["CURL_", "RESOLV_"]
    private static let proxyVariables: Set<String> = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"]

    /// Whether the variable of this name is one of them.
    package func contains(_ name: String) -> Bool {
        switch self {
        case .always: Self.libraryVariables.contains(name) || Self.prefixes.contains { name.hasPrefix($0) }
        case .proxies: Self.proxyVariables.contains(name.lowercased())
        }
    }
}
