import COpenSSL
import Testing

/// What limits the messages of libcurl's connections, whose contexts libcurl makes and ends.
@Suite struct TLSTallyTests {
    @Test("a connection that outlives its call counts in memory that is still there")
    func users() throws {
        let context = try #require(SSL_CTX_new(TLS_client_method()))
        let tally = try #require(lanyard_tls_make_tally())
        #expect(tally.pointee.users == 1)
        #expect(lanyard_tls_guard_client(context, tally) == 1)
        #expect(tally.pointee.users == 2)
        let connection = try #require(SSL_new(context))
        // The transfer ends, then libcurl gives its context up. The connection is still there.
        lanyard_tls_release_tally(tally)
        SSL_CTX_free(context)
        #expect(tally.pointee.users == 1 && !tally.pointee.is_exceeded)
        SSL_free(connection)
    }

    @Test("a context that ends first leaves the tally to the call")
    func contextFirst() throws {
        let context = try #require(SSL_CTX_new(TLS_client_method()))
        let tally = try #require(lanyard_tls_make_tally())
        #expect(lanyard_tls_guard_client(context, tally) == 1)
        SSL_CTX_free(context)
        #expect(tally.pointee.users == 1)
        lanyard_tls_release_tally(tally)
    }
}
