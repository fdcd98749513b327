import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// `curl -L` through the login of a site: Apache sets a cookie for its own host and path, and redirects to an address that it builds
/// from the `Host` that it has seen.
@Suite(
    .enabled(
        if: ApacheProcess.isInstalled && access("/usr/bin/curl", X_OK) == 0,
        "needs Apache (apt-get install apache2) and curl"))
struct LoginRedirectTests {
    private let site: ApacheSite

    init() async throws {
        site = try await ApacheSite.start(
            """
            LoadModule alias_module /usr/lib/apache2/modules/mod_alias.so
            SetEnvIf Host "^([^:]+)" own_host=$1
            SetEnvIf Cookie "^sid=1$" has_sid
            RedirectMatch 303 ^/inner/login$ /inner/home
            <Location /inner/login>
            Header always set Set-Cookie "sid=1; Domain=%{own_host}e; Path=/inner"
            </Location>
            <Location /inner/home>
            <RequireAll>
            Require env has_token
            Require env has_sid
            </RequireAll>
            </Location>
            """)
        let inner = site.apache.folder.file("www/inner")
        try FileManager.default.createDirectory(atPath: inner, withIntermediateDirectories: true)
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: inner)
        try site.apache.folder.write("www/inner/home", "home", mode: 0o644)
    }

    /// What curl ends with, and where, for `/app/login` on a route that maps `/app` to the site's `/inner`.
    private func login(_ route: String) async throws -> String {
        let lanyard = try await site.another(path: "/inner", route: "match: {path: /app}, \(route)")
        // A non-empty name would be read; `-` writes the cookies behind the output.
        let output = try await site.run(
            "/usr/bin/curl",
            [
                "-sSL", "--noproxy", "*", "-m", "30", "-b", "", "-c", "-", "-w", "\n%{http_code} %{url_effective}\n",
                "http://\(lanyard.data)/app/login",
            ])
        return output.replacing("\(lanyard.data)", with: "lanyard")
    }

    @Test(
        "12.6 curl -L ends behind the login, with the cookie, and has met Lanyard alone",
        arguments: ["upstream", "client"])
    func followed(host: String) async throws {
        let output = try await login("host: \(host)")
        #expect(output.hasPrefix("home\n200 http://lanyard/app/home\n"), "\(output)\n\(site.accessLog)")
        #expect(output.hasSuffix("127.0.0.1\tFALSE\t/app\tFALSE\t0\tsid\t1\n"), "\(output)")
    }

    @Test("12.6 With `cookies: pass` the site does not get its cookie back", arguments: ["upstream", "client"])
    func passed(host: String) async throws {
        let output = try await login("host: \(host), cookies: pass")
        #expect(output.contains("\n403 http://lanyard/app/home\n"), "\(output)\n\(site.accessLog)")
    }
}
