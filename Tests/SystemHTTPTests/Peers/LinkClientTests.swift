import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// Python's requests follows the pages of an API by `links`, as the documents of such APIs say: the URL as it is.
@Suite(
    .enabled(
        if: access("/usr/lib/python3/dist-packages/requests", R_OK) == 0,
        "needs requests (apt-get install python3-requests)"))
struct LinkClientTests {
    private static let client = #"""
        import sys, requests
        session = requests.Session()
        session.trust_env = False
        url, pages = sys.argv[1], []
        while url:
            response = session.get(url)
            response.raise_for_status()
            pages.append(response.text)
            url = response.links.get("next", {}).get("url")
        print(" ".join(pages))
        """#

    @Test("12.6 requests reads all pages by links, each through Lanyard with the token")
    func pages() async throws {
        let bench = try await HTTPBench.start { plan in
            plan.listener = ""
            (plan.path, plan.upstreamPath) = ("/api", "/v1")
        }
        let authority = "\(bench.upstream.endpoint)"
        bench.script { request in
            guard request.message["Authorization"] == "Bearer \(HTTPBench.token)" else {
                return .response(401, "Unauthorized", body: "")
            }
            let page = Int(request.message.target.split(separator: "=").last ?? "") ?? 1
            let next = "<http://\(authority)/v1/items?page=\(page + 1)>; rel=\"next\""
            return .response(fields: page < 3 ? [("Link", next)] : [], body: "page\(page)")
        }
        let script = try TemporaryFolder()
        let process = try ServerProcess(
            PythonProcess.path,
            [try script.write("pages.py", Self.client), "http://\(bench.lanyard.data)/api/items?page=1"])
        #expect(try await process.waitForExit() == .code(0), "\(process.log)")
        #expect(process.output == "page1 page2 page3\n")
    }
}
