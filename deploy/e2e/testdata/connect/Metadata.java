import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;

/** Asks what DBeaver and Metabase ask for, reads every view, and prints the number of views. */
public class Metadata {
    public static void main(String[] args) throws Exception {
        var url = "jdbc:clickhouse://" + System.getenv("ADDRESS") + "/muster_views?compress=false";
        try (var connection = DriverManager.getConnection(url)) {
            check(connection.isValid(5), "isValid");
            var metadata = connection.getMetaData();
            check(column(metadata.getSchemas(), "TABLE_SCHEM").equals(List.of("muster_views")), "getSchemas");
            column(metadata.getCatalogs(), "TABLE_CAT");
            var views = column(metadata.getTables(null, "muster_views", "%", new String[] {"VIEW"}), "TABLE_NAME");
            check(views.equals(column(metadata.getTables(null, null, "%", null), "TABLE_NAME")), "getTables");
            for (var view : views) {
                var columns = column(metadata.getColumns(null, "muster_views", view, "%"), "REMARKS");
                check(!columns.isEmpty() && !columns.contains(""), view + ": columns with comments");
                column(metadata.getPrimaryKeys(null, "muster_views", view), "COLUMN_NAME");
                column(metadata.getImportedKeys(null, "muster_views", view), "FKCOLUMN_NAME");
                column(metadata.getIndexInfo(null, "muster_views", view, false, true), "COLUMN_NAME");
                read(connection, view, columns.size());
            }
            check(rejected(connection, "SELECT * FROM muster.network_people").getErrorCode() == 497, "other database");
            check(rejected(connection, "DROP VIEW people").getErrorCode() == 164, "read-only");
            System.out.println(views.size());
        }
    }

    static void read(Connection connection, String view, int columns) throws SQLException {
        try (var statement = connection.createStatement()) {
            statement.setMaxRows(100);
            statement.setQueryTimeout(30);
            var rows = statement.executeQuery("SELECT * FROM `muster_views`.`" + view + "` AS `source`");
            check(rows.getMetaData().getColumnCount() == columns, view + ": columns");
            var count = 0;
            for (; rows.next(); count++) {
                for (var i = 1; i <= columns; i++) {
                    rows.getObject(i);
                }
            }
            check(count > 0 && count <= 100, view + ": rows");
        }
    }

    static SQLException rejected(Connection connection, String sql) throws SQLException {
        try (var statement = connection.createStatement()) {
            statement.execute(sql);
        } catch (SQLException e) {
            return e;
        }
        throw new AssertionError(sql);
    }

    static List<String> column(ResultSet rows, String name) throws SQLException {
        var out = new ArrayList<String>();
        while (rows.next()) {
            out.add(rows.getString(name));
        }
        return out;
    }

    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }
}
