import Glibc
import TestSupport

/// nginx in the foreground, on a unix socket: it cannot be asked which free TCP port it took. It is one process, because workers outlive a
/// master that is killed.
final class NginxProcess: Sendable {
    static let isInstalled = access("/usr/sbin/nginx", X_OK) == 0

    let process: ServerProcess
    /// Where it listens.
    let endpoint: RawEndpoint

    /// Starts it and waits until it answers.
    ///
    /// - Parameters:
    ///   - server: what its one `server` block holds besides `listen`.
    ///   - folder: for its files; outlives it.
    ///   - http: further lines of the `http` block.
    static func start(
        _ server: String, in folder: TemporaryFolder, http: String = "", cpus: String? = nil
    ) async throws -> NginxProcess {
        let path = folder.file("nginx.sock")
        let configuration = try folder.write(
            "nginx.conf",
            """
            daemon off; master_process off; pid \(folder.file("nginx.pid")); error_log \(folder.file("error.log"));
            \(getuid() == 0 ? "user root;" : "")
            events { worker_connections 4096; }
            http {
              access_log off; default_type text/plain;
              client_body_temp_path \(folder.file("body")); proxy_temp_path \(folder.file("proxy"));
              fastcgi_temp_path \(folder.file("fastcgi")); uwsgi_temp_path \(folder.file("uwsgi"));
              scgi_temp_path \(folder.file("scgi"));
              \(http)
              server {
                listen unix:\(path);
                \(server)
              }
            }
            """)
        let process = try ServerProcess("/usr/sbin/nginx", ["-p", folder.path, "-c", configuration], cpus: cpus)
        let endpoint = RawEndpoint.unix(path)
        do {
            try await eventually("nginx answers") {
                guard process.exit == nil else { throw TestFailure("nginx ended: \(process.log)") }
                return (try? await RawClient.ask(endpoint, "GET", "/"))?.status ?? 0 > 0
            }
        } catch {
            throw TestFailure("\(error); it said:\n\(process.log)")
        }
        return NginxProcess(process, endpoint)
    }

    private init(_ process: ServerProcess, _ endpoint: RawEndpoint) {
        self.process = process
        self.endpoint = endpoint
    }
}
