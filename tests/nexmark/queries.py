"""Nexmark's queries in SQL. Number 12 has windows of event time here, not of processing time."""

TUMBLE = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))"
HOP = "TABLE(HOP(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '2' SECOND, INTERVAL '10' SECOND))"
DAY = "DATE_FORMAT(dateTime, 'yyyy-MM-dd')"
RANKS = """
    COUNT(*) FILTER (WHERE price < 10000) AS low,
    COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS middle,
    COUNT(*) FILTER (WHERE price >= 1000000) AS high
"""
WON = "A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires"
COUNTED = f"""
    SELECT auction, COUNT(*) AS num, window_start AS starttime, window_end AS endtime
    FROM {HOP} GROUP BY auction, window_start, window_end
"""

QUERIES = {
    "q0": "SELECT auction, bidder, price, dateTime, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, dateTime, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": """
        SELECT P.name, P.city, P.state, A.id FROM auction AS A JOIN person AS P ON A.seller = P.id
        WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')
    """,
    "q4": f"""
        SELECT category, AVG(final) AS price FROM (
            SELECT MAX(B.price) AS final, A.category FROM auction A, bid B WHERE {WON}
            GROUP BY A.id, A.category
        ) GROUP BY category
    """,
    "q5": f"""
        SELECT bids.auction, bids.num FROM ({COUNTED}) AS bids JOIN (
            SELECT MAX(num) AS most, starttime, endtime FROM ({COUNTED}) AS counted
            GROUP BY starttime, endtime
        ) AS top
        ON bids.starttime = top.starttime AND bids.endtime = top.endtime AND bids.num >= top.most
    """,
    "q7": f"""
        SELECT B.auction, B.price, B.bidder, B.dateTime, B.extra FROM bid B JOIN (
            SELECT MAX(price) AS most, window_end AS ended FROM {TUMBLE.format("bid")}
            GROUP BY window_start, window_end
        ) B1 ON B.price = B1.most
        WHERE B.dateTime BETWEEN B1.ended - INTERVAL '10' SECOND AND B1.ended
    """,
    "q8": f"""
        SELECT P.id, P.name, P.starttime FROM (
            SELECT id, name, window_start AS starttime, window_end AS endtime
            FROM {TUMBLE.format("person")} GROUP BY id, name, window_start, window_end
        ) P JOIN (
            SELECT seller, window_start AS starttime, window_end AS endtime
            FROM {TUMBLE.format("auction")} GROUP BY seller, window_start, window_end
        ) A ON P.id = A.seller AND P.starttime = A.starttime AND P.endtime = A.endtime
    """,
    "q9": f"""
        SELECT id, itemName, description, initialBid, reserve, opened, expires, seller, category,
               auction, bidder, price, dateTime
        FROM (
            SELECT A.id, A.itemName, A.description, A.initialBid, A.reserve,
                   A.dateTime AS opened, A.expires, A.seller, A.category,
                   B.auction, B.bidder, B.price, B.dateTime,
                   ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.dateTime) AS place
            FROM auction A, bid B WHERE {WON}
        ) WHERE place <= 1
    """,
    "q11": """
        SELECT bidder, COUNT(*) AS bids, window_start AS starttime, window_end AS endtime
        FROM TABLE(SESSION(
            TABLE bid PARTITION BY bidder, DESCRIPTOR(dateTime), INTERVAL '1' SECOND
        )) GROUP BY bidder, window_start, window_end
    """,
    "q12": f"""
        SELECT bidder, COUNT(*) AS bids, window_start AS starttime, window_end AS endtime
        FROM {TUMBLE.format("bid")} GROUP BY bidder, window_start, window_end
    """,
    "q15": f"""
        SELECT {DAY} AS `day`, COUNT(*) AS bids, {RANKS},
               COUNT(DISTINCT bidder) AS bidders,
               COUNT(DISTINCT bidder) FILTER (WHERE price < 10000) AS low_bidders,
               COUNT(DISTINCT auction) AS auctions
        FROM bid GROUP BY {DAY}
    """,
    "q16": f"""
        SELECT channel, {DAY} AS `day`, MAX(DATE_FORMAT(dateTime, 'HH:mm')) AS `minute`,
               COUNT(*) AS bids, {RANKS}, COUNT(DISTINCT bidder) AS bidders,
               COUNT(DISTINCT auction) AS auctions
        FROM bid GROUP BY channel, {DAY}
    """,
    "q17": f"""
        SELECT auction, {DAY} AS `day`, COUNT(*) AS bids, {RANKS}, MIN(price) AS least,
               MAX(price) AS most, AVG(price) AS average, SUM(price) AS total
        FROM bid GROUP BY auction, {DAY}
    """,
    "q18": """
        SELECT auction, bidder, price, channel, url, dateTime, extra FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC)
                AS place FROM bid
        ) WHERE place <= 1
    """,
    "q19": """
        SELECT * FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS place FROM bid
        ) WHERE place <= 10
    """,
    "q20": """
        SELECT B.auction, B.bidder, B.price, B.channel, B.url, B.dateTime, A.itemName,
               A.description, A.initialBid, A.reserve, A.expires, A.seller, A.category
        FROM bid AS B JOIN auction AS A ON B.auction = A.id WHERE A.category = 10
    """,
    "q22": """
        SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3) AS dir1,
               SPLIT_INDEX(url, '/', 4) AS dir2, SPLIT_INDEX(url, '/', 5) AS dir3 FROM bid
    """,
}
