import LanyardFoundations
import LanyardSettings
import Testing

@testable import LanyardRequestPath

/// How many requests a connection of HTTP/2 takes (http2-rules.md H26 to H28, H34).
@Suite struct StreamPlacesTests {
    private static let start = Instant(nanoseconds: 1_000_000_000_000)

    @Test("H26 H27 places that are promised count, and what the upstream has announced holds")
    func announced() {
        var places = StreamPlaces(HTTP2Settings(), at: Self.start)
        #expect(places.hasFree(besides: 99, announced: 100, at: Self.start))
        places.promise()
        #expect(!places.hasFree(besides: 99, announced: 100, at: Self.start))
        #expect(!places.hasFree(besides: 0, announced: 1, at: Self.start))
        #expect(!StreamPlaces(HTTP2Settings(), at: Self.start).hasFree(besides: 0, announced: 0, at: Self.start))
    }

    @Test("H28 a refusal beside others is a limit, which grows with each stream that ends in order")
    func refusal() {
        var places = StreamPlaces(HTTP2Settings(), at: Self.start)
        places.noteRefusal(others: 3)
        #expect(!places.hasFree(besides: 3, announced: 100, at: Self.start))
        #expect(places.hasFree(besides: 2, announced: 100, at: Self.start))
        places.noteEnd()
        #expect(places.hasFree(besides: 3, announced: 100, at: Self.start))
        #expect(!places.hasFree(besides: 4, announced: 100, at: Self.start))
    }

    @Test("H34 age and number of requests bound the use")
    func use() {
        var settings = HTTP2Settings()
        (settings.requestsMax, settings.maxAge) = (2, .seconds(60))
        var places = StreamPlaces(settings, at: Self.start)
        #expect(!places.hasFree(besides: 0, announced: 100, at: Self.start + .seconds(60)))
        places.promise()
        #expect(!places.areUsedUp && places.hasFree(besides: 0, announced: 100, at: Self.start))
        places.promise()
        #expect(places.areUsedUp)
    }
}
