import CLinux
import Glibc

/// The environment variables of this process.
package enum ProcessEnvironment {
    private static let clearedNames = Guarded<[String]>([])

    /// Removes these variables. Call only while the process has one thread: other threads may read the environment.
    package static func clear(_ variables: LibraryVariables) {
        let names = all().keys.filter(variables.contains)
        for name in names { unsetenv(name) }
        clearedNames.withLock { $0 += names }
    }

    /// The names of the variables that were removed, sorted.
    package static var cleared: [String] { clearedNames.withLock { $0.sorted() } }

    /// All variables. If a name occurs twice the first one counts, as in getenv(3).
    package static func all() -> [String: String] {
        var variables: [String: String] = [:]
        guard var next = lanyard_environment() else { return variables }
        while let line = next.pointee {
            next += 1
            guard let equals = strchr(line, CInt(UInt8(ascii: "="))) else { continue }
            let name = String(decoding: UnsafeRawBufferPointer(start: line, count: equals - line), as: UTF8.self)
            if variables[name] == nil { variables[name] = String(cString: equals + 1) }
        }
        return variables
    }
}

/// Variables that change the behaviour of libraries. They come from a shell profile or a base image and are not meant for Lanyard.
///
/// Variables that are read before `main` cannot be removed in time: `LD_*`, `GLIBC_TUNABLES`, `MALLOC_*`, `OPENSSL_ia32cap`.
package enum LibraryVariables: Sendable {
    /// TLS secrets, providers, trust, and how names are resolved.
    case always
    /// Read for identities and routes with `proxy: environment` only.
    case proxies

    private static let libraryVariables: Set<String> = [
        // Writes the secrets of every TLS connection to a file (libcurl).
        "SSLKEYLOGFILE",
        // Configuration and code that OpenSSL loads.
        "OPENSSL_CONF", "OPENSSL_CONF_INCLUDE", "OPENSSL_MODULES", "OPENSSL_ENGINES", "OPENSSL_TRACE",
        // Certificates that OpenSSL trusts. The identity's `tls.ca_file` sets them.
        "SSL_CERT_FILE", "SSL_CERT_DIR", "CTLOG_FILE",
        // Passwords and logs of libcurl.
        "NETRC", "SSL_DIR", "QLOGDIR",
        // Changes to name resolution in glibc, beside /etc/hosts and /etc/resolv.conf.
        "HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS",
    ]
    private static let prefixes = ["CURL_", "RESOLV_"]
    private static let proxyVariables: Set<String> = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"]

    /// Whether the variable of this name belongs to this kind.
    package func contains(_ name: String) -> Bool {
        switch self {
        case .always: Self.libraryVariables.contains(name) || Self.prefixes.contains { name.hasPrefix($0) }
        case .proxies: Self.proxyVariables.contains(name.lowercased())
        }
    }
}
